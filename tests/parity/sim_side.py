"""The simulated scheduler, seen through the steps that it publishes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from control_plane.contracts.block_tables import BlockTables
from control_plane.contracts.kv_events import KvFrame
from control_plane.contracts.kv_mirror import KvMirror
from tests.parity.observed import SNAPSHOT_EVERY, Seen, SeenRow
from tests.parity.trace import STOP, Arrival
from workers.engine.kv_journal import KvJournal
from workers.engine.sim.config import SchedulerConfig
from workers.engine.sim.engine_step import engine_step
from workers.engine.sim.scheduled import Scheduled
from workers.engine.sim.scheduler import SimScheduler

MakeScheduler = Callable[[SchedulerConfig, KvJournal | None], SimScheduler]


class SimSide:
    def __init__(self, config: SchedulerConfig, make: MakeScheduler = SimScheduler) -> None:
        self._journal = KvJournal()
        self._mirror = KvMirror()
        self._scheduler = make(config, self._journal if config.enable_prefix_caching else None)
        self._outputs: dict[str, tuple[int, ...]] = {}
        self._tables = BlockTables()
        self._flying: deque[Scheduled] = deque()
        self._rows: list[SeenRow] = []
        self._preempted: set[str] = set()
        self._expected: dict[int, dict[str, tuple[int, ...]]] = {}
        self._scheduled_counts = self._scheduler.counts()
        self._looked_at = 0

    def add(self, arrival: Arrival) -> None:
        self._outputs[arrival.request.request_id] = arrival.output
        self._scheduler.add(arrival.request)

    def abort(self, request_id: str) -> None:
        self._scheduler.abort(request_id)

    def reset(self) -> bool:
        return self._scheduler.reset_prefix_cache()

    def idle(self) -> bool:
        return self._scheduler.sizes() == (0, 0)

    def schedule(self) -> bool:
        scheduler, before = self._scheduler, self._scheduler.step
        tables = self._held()
        scheduled = scheduler.schedule(0.0)
        if scheduler.step != before:
            self._expected.setdefault(before, tables)
        elif before != self._looked_at:
            # What the step before is to leave is open again, unless a snapshot has told it.
            self._expected.pop(before, None)
        self._flying.append(scheduled)
        self._preempted.update(scheduled.preempted)
        self._rows += [
            SeenRow(
                row.request_id,
                row.tokens,
                row.computed,
                row.output_tokens,
                row.cached_tokens,
                row.joined,
                row.resumed,
                row.new_blocks,
                row.blocks,
            )
            for row in scheduled.rows
        ]
        self._scheduled_counts = scheduler.counts()
        return bool(scheduled.batch)

    def complete(self, reset: bool | None) -> Seen:
        scheduler, scheduled = self._scheduler, self._flying.popleft()
        due = set(scheduled.due)
        tokens = {
            row.request_id: self._outputs[row.request_id][row.output_tokens :][:1]
            for row in scheduled.rows
            if row.request_id in due
        }
        ended = {request_id: "stop" for request_id, new in tokens.items() if new == (STOP,)}
        finished = scheduler.complete(scheduled, tokens, ended)
        step = engine_step(scheduled, finished, scheduler.told_counts(), started_unix=0.0)
        told = bool(step.rows or step.preempted or step.finished)
        if told:
            # What a watcher makes of the published steps has to be what the scheduler held when the step was over.
            self._tables.apply(step)
            followed = {table.request_id: table.blocks for table in self._tables.tables()}
            held = self._expected.pop(step.step) if step.step in self._expected else self._held()
            assert followed == held, "steps and scheduler differ"
        pool = scheduler._pool
        snapshot = scheduler.snapshot() if told and not step.step % SNAPSHOT_EVERY else None
        if snapshot is not None:
            self._looked_at = snapshot.step
        if snapshot is not None and self._flying:
            self._expected[snapshot.step] = {table.request_id: table.blocks for table in snapshot.tables}
        rows, self._rows = tuple(self._rows), []
        preempted, self._preempted = frozenset(self._preempted), set()
        batch = self._journal.batch()
        assert self._mirror.apply(KvFrame(batches=(batch,) if batch is not None else ()))
        assert self._mirror.hashes == self._journal.hashes == scheduler.cached_keys()
        return Seen(
            published=step if told else None,
            snapshot=snapshot,
            rows=rows,
            preempted=preempted,
            waiting=tuple((one.request_id, one.tokens, one.priority, one.preempted) for one in scheduler.waiting()),
            scheduled_counts=self._scheduled_counts,
            finished=tuple((end.request_id, end.reason, end.output_tokens, end.freed_blocks) for end in finished),
            counts=tuple(scheduler.counts()),
            tables=tuple((table.request_id, table.computed, table.blocks) for table in scheduler.tables()),
            shared=tuple(pool.shared()),
            cached_free=pool.idle(),
            reset=reset,
            kv_batch=batch,
            told=len(self._mirror.hashes),
        )

    def _held(self) -> dict[str, tuple[int, ...]]:
        return {table.request_id: table.blocks for table in self._scheduler.tables()}
