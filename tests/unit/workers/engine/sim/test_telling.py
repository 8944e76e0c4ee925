"""Whatever is told of a run, and whatever is not: tables that follow the told steps are the scheduler's own."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from control_plane.contracts.block_tables import BlockTables
from control_plane.contracts.step import TraceMode
from workers.engine.sim.config import SchedulerConfig
from workers.engine.sim.request import SimRequest
from workers.engine.sim.scheduler import SimScheduler
from workers.engine.sim.telling import Telling

CONFIG = SchedulerConfig(
    block_size=4, total_blocks=16, max_num_seqs=4, max_num_batched_tokens=24, max_model_len=64, policy="priority"
)
MODES = st.sampled_from([(TraceMode.OFF, 1), (TraceMode.SAMPLED, 2), (TraceMode.SAMPLED, 5), (TraceMode.FULL, 1)])
MOVE = st.tuples(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 20), st.integers(0, 2)), max_size=2),  # arrivals
    st.integers(0, 9),  # below 2: abort the oldest
    st.one_of(st.none(), MODES),
    st.booleans(),  # drop
)


@settings(max_examples=120, deadline=None)
@example(
    [
        ([(19, 7, 0)], 2, None, False),
        ([], 2, None, False),
        ([(1, 6, 1), (4, 6, 1)], 2, None, False),
        ([(39, 4, 0), (1, 1, 0)], 0, None, False),
        ([], 0, None, False),
        ([], 0, None, False),
        ([], 0, None, True),
        ([(1, 2, 0), (1, 1, 0)], 0, None, True),
        ([], 0, None, False),
    ]
).via("put back and taken up again, both untold, and not in the next batch")
@given(st.lists(MOVE, min_size=5, max_size=60))
def test_tables_follow(moves: list[tuple[list[tuple[int, int, int]], int, tuple[TraceMode, int] | None, bool]]) -> None:
    scheduler, telling, tables = SimScheduler(CONFIG), Telling(), BlockTables()
    told_ends: list[str] = []
    told_joins: list[str] = []
    names: list[str] = []
    dropped = 0
    for arrivals, die, mode, drop in [*moves, ([], 9, (TraceMode.FULL, 1), False)]:
        for prompt, output, priority in arrivals:
            names.append(f"r{len(names)}")
            scheduler.add(SimRequest(names[-1], [7] * prompt, output, priority))
        if die < 2 and names:
            scheduler.abort(names[-1 - die % len(names)])
        if mode is not None:
            telling.switch(*mode)
        scheduled = scheduler.schedule(0.0)
        finished = scheduler.complete(scheduled, {name: [3] for name in scheduled.due})
        step = telling.tell(scheduled, finished, scheduler.counts(), started_unix=0.0, execute_s=0.0, drop=drop)
        assert not (drop and step)
        if step is None:
            continue
        tables.apply(step)
        told_ends += [end.request_id for end in step.finished]
        told_joins += [row.request_id for row in step.rows if row.joined]
        snapshot = scheduler.snapshot()
        held = {table.request_id: table.blocks for table in snapshot.tables}
        followed = {table.request_id: table.blocks for table in tables.tables()}
        batch = {row.request_id for row in step.rows}
        # A request whose every step went untold is not known yet, one that is not in this batch may have grown.
        assert {name: blocks for name, blocks in followed.items() if name in batch} == {
            name: blocks for name, blocks in held.items() if name in batch
        }
        assert set(followed) <= set(held)
        assert step.dropped >= dropped
        dropped = step.dropped
        for row in step.rows:
            if row.joined or row.resumed:
                assert len(row.new_blocks) == row.blocks
    assert len(set(told_ends)) == len(told_ends)
    assert len(set(told_joins)) == len(told_joins)
