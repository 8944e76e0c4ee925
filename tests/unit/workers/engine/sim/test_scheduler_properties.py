"""What holds for the simulated scheduler whatever happens to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.contracts.block_tables import BlockTables
from control_plane.contracts.step import EngineStep
from workers.engine.sim.config import SchedulerConfig
from workers.engine.sim.engine_step import engine_step
from workers.engine.sim.request import SimRequest
from workers.engine.sim.scheduler import SimScheduler

ENOUGH_STEPS = 2000


@dataclass(frozen=True, slots=True)
class Plan:
    """Requests by the step before which they come; ``aborts`` name a request by its place, with the step, and whether
    it is while that is computed."""

    config: SchedulerConfig
    requests: tuple[tuple[int, SimRequest], ...]
    aborts: tuple[tuple[int, int, bool], ...]


@st.composite
def configs(draw: st.DrawFn) -> SchedulerConfig:
    block_size = draw(st.sampled_from((1, 2, 4, 16)))
    max_model_len = draw(st.integers(4, 48))
    max_num_seqs = draw(st.integers(1, 6))
    chunked = draw(st.booleans())
    return SchedulerConfig(
        block_size=block_size,
        total_blocks=-(-max_model_len // block_size) + draw(st.integers(0, 4)),
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=draw(st.integers(max_num_seqs if chunked else max(max_num_seqs, max_model_len), 64)),
        max_model_len=max_model_len,
        policy=draw(st.sampled_from(("fcfs", "priority"))),
        enable_prefix_caching=draw(st.booleans()),
        enable_chunked_prefill=chunked,
        long_prefill_token_threshold=draw(st.integers(0, 4)),
        scheduler_reserve_full_isl=draw(st.booleans()),
        watermark=draw(st.sampled_from((0.0, 0.2))),
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    config = draw(configs())
    count = draw(st.integers(1, 8))
    # Few words, so that prefixes are often shared.
    prompts = st.lists(st.integers(0, 1), min_size=1, max_size=config.max_model_len - 1)
    requests = tuple(
        (
            draw(st.integers(0, 12)),
            SimRequest(
                f"r{number}",
                draw(prompts),
                draw(st.integers(1, 16)),
                priority=draw(st.integers(-1, 1)),
                # All different, as clocks are: of requests that came at the same time and with the same priority vLLM
                # may put back now this one and now that one, for ever.
                arrival=draw(st.integers(0, 3)) + number / 1000,
                cache_salt=draw(st.sampled_from(("", "x"))),
            ),
        )
        for number in range(count)
    )
    aborts = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, 30), st.booleans()), max_size=3))
    return Plan(config, requests, tuple(aborts))


@dataclass(slots=True)
class Play:
    """A plan played to its end, checked at every step; ``text`` is what each request has said and was asked."""

    plan: Plan
    sim: SimScheduler = field(init=False)
    tables: BlockTables = field(default_factory=BlockTables)
    text: dict[str, list[int]] = field(default_factory=dict)
    steps: list[EngineStep] = field(default_factory=list)

    def run(self) -> list[EngineStep]:
        self.sim = SimScheduler(self.plan.config)
        last = max((event[0] for event in self.plan.requests), default=0)
        for number in range(ENOUGH_STEPS):
            if number > last and not self.sim.has_work():
                return self.steps
            for step, request in self.plan.requests:
                if step == number:
                    self.text[request.request_id] = list(request.prompt_token_ids)
                    self.sim.add(request)
            self._abort(number, False)
            self._step(number)
        raise AssertionError("the requests do not come to an end")

    def _abort(self, number: int, in_flight: bool) -> None:
        for place, step, while_computed in self.plan.aborts:
            if (step, while_computed) == (number, in_flight):
                self.sim.abort(f"r{place}")

    def _step(self, number: int) -> None:
        scheduled = self.sim.schedule(float(number))
        self._check_blocks()
        self._abort(number, True)
        tokens = {request_id: (len(self.text[request_id]) % 2,) for request_id in scheduled.due}
        running = self.sim.running()
        finished = self.sim.complete(scheduled, tokens)
        for request_id, new in tokens.items():
            if request_id in running:
                self.text[request_id] += new
        step = engine_step(scheduled, finished, self.sim.counts(), started_unix=float(number))
        if step.step > len(self.steps):
            self.steps.append(step)
        self.tables.apply(step)
        self._check_step(step)
        self._check_blocks()

    def _check_step(self, step: EngineStep) -> None:
        config = self.plan.config
        assert step.step == len(self.steps)
        assert step.tokens == sum(row.tokens for row in step.rows) <= config.max_num_batched_tokens
        assert len(step.rows) <= config.max_num_seqs
        assert all(row.tokens > 0 for row in step.rows)
        assert not {row.request_id for row in step.rows} & set(step.preempted)
        for row in step.rows:
            # As many blocks as the tokens need, and no more.
            assert row.blocks == -(-(row.computed + row.tokens) // config.block_size)
        held = {table.request_id: table.blocks for table in self.tables.tables()}
        assert held == {table.request_id: table.blocks for table in self.sim.snapshot().tables}

    def _check_blocks(self) -> None:
        snapshot, size = self.sim.snapshot(), self.plan.config.block_size
        assert snapshot.used_blocks + snapshot.cached_free_blocks + snapshot.free_blocks == snapshot.total_blocks
        references = Counter(block for table in snapshot.tables for block in table.blocks)
        assert all(1 <= block <= snapshot.total_blocks for block in references)
        assert len(references) == snapshot.used_blocks
        assert len(snapshot.tables) <= self.plan.config.max_num_seqs
        assert {shared.block: shared.references for shared in snapshot.shared} == {
            block: count for block, count in references.items() if count > 1
        }
        assert len(set(snapshot.cached_free)) == snapshot.cached_free_blocks
        assert not references.keys() & set(snapshot.cached_free)
        # A block holds one content: whoever shares it has the same tokens up to its end, and the same salt.
        salts = {request.request_id: request.cache_salt for _, request in self.plan.requests}
        contents: dict[int, tuple[str, list[int]]] = {}
        for table in snapshot.tables:
            assert len(set(table.blocks)) == len(table.blocks)
            for index, block in enumerate(table.blocks):
                if references[block] > 1:
                    content = (salts[table.request_id], self.text[table.request_id][: (index + 1) * size])
                    assert contents.setdefault(block, content) == content


@given(plans())
def test_blocks_budget_and_seats_are_kept_and_every_request_joins_and_ends_once(plan: Plan) -> None:
    steps = Play(plan).run()
    ends = Counter(end.request_id for step in steps for end in step.finished)
    assert ends == Counter({request.request_id: 1 for _, request in plan.requests})
    limits = {
        request.request_id: min(request.max_tokens, plan.config.max_model_len - len(request.prompt_token_ids))
        for _, request in plan.requests
    }
    for step in steps:
        for end in step.finished:
            assert end.output_tokens == limits[end.request_id] or end.reason == "abort"
            assert end.output_tokens <= limits[end.request_id]
    assert steps[-1].used_blocks == 0
    _check_joins(steps)


def _check_joins(steps: list[EngineStep]) -> None:
    """A request joins once, and resumes once for each time it was preempted."""
    joined = Counter(row.request_id for step in steps for row in step.rows if row.joined)
    assert set(joined.values()) <= {1}
    away: set[str] = set()
    for step in steps:
        away |= set(step.preempted)
        for row in step.rows:
            assert row.resumed == (row.request_id in away)
            away.discard(row.request_id)


@settings(max_examples=25)
@given(plans())
def test_the_same_plan_runs_the_same(plan: Plan) -> None:
    assert Play(plan).run() == Play(plan).run()
