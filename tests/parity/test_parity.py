from __future__ import annotations

import dataclasses

import pytest

from tests.parity.difference import Compared, first_difference, minimised, readable
from tests.parity.generate import generate
from tests.parity.sim_side import MakeScheduler, SimSide
from tests.parity.vllm_side import VllmSide
from workers.engine.kv_journal import KvJournal
from workers.engine.sim.block_pool import BlockPool
from workers.engine.sim.config import SchedulerConfig
from workers.engine.sim.prefix import extend_keys
from workers.engine.sim.request_state import RequestState
from workers.engine.sim.scheduler import SimScheduler

TRACES = 200


@pytest.mark.parametrize("ahead", [False, True], ids=["scheduler", "async scheduler"])
def test_the_simulator_schedules_as_vllm_does_step_by_step(ahead: bool) -> None:
    compared = Compared()
    for seed in range(TRACES):
        difference = first_difference(generate(seed, async_scheduling=ahead), VllmSide, SimSide, compared)
        if difference is not None:
            pytest.fail(readable(minimised(difference, VllmSide, SimSide)), pytrace=False)
    # The traces have to be such that there is something to get wrong.
    assert compared.rows > compared.steps > 10_000
    assert compared.cached_rows > 300
    assert compared.preemptions > 300
    assert compared.finished > 2_000
    assert compared.aborted > 100
    assert compared.stored > 10_000
    assert compared.removed > 5_000
    assert compared.cleared > 10


class _LastFreedFirst(BlockPool):
    """Takes the cached block that was freed last, not the one freed longest ago."""

    def release(self, blocks: list[int]) -> None:
        before = self._idle.numbers()
        super().release(blocks)
        after = self._idle.numbers()
        self._idle.clear()
        for block in [*reversed(after[len(before) :]), *before]:
            self._idle.add(self._blocks[block])


class _WrongCache(SimScheduler):
    def __init__(self, config: SchedulerConfig, journal: KvJournal | None = None) -> None:
        super().__init__(config, journal)
        self._pool = _LastFreedFirst(config.total_blocks, journal)


class _WrongVictim(SimScheduler):
    """Pushes out the first admitted."""

    def _victim(self) -> int:
        return 0


def _wrong_budget(config: SchedulerConfig, journal: KvJournal | None) -> SimScheduler:
    return SimScheduler(dataclasses.replace(config, max_num_batched_tokens=config.max_num_batched_tokens + 1), journal)


class _Forgetful(SimScheduler):
    """What a preempted request has in flight is lost."""

    def _preempt(self, state: RequestState) -> None:
        coming = state.coming
        super()._preempt(state)
        if coming:
            state.limit -= coming


class _TooEager(SimScheduler):
    """Caches blocks before all of their tokens have come."""

    def _cache_known(self, state: RequestState, computed: int) -> None:
        if len(state.tokens) // self.config.block_size * self.config.block_size >= state.cache_at:
            super()._cache_known(state, len(state.tokens))


def _wrong_depth(config: SchedulerConfig, journal: KvJournal | None) -> SimScheduler:
    """Schedules as if no step were in flight."""
    return SimScheduler(dataclasses.replace(config, async_scheduling=False), journal)


def _wrong_names(config: SchedulerConfig, journal: KvJournal | None) -> SimScheduler:
    scheduler = SimScheduler(config, journal)
    scheduler._extend_keys = extend_keys
    return scheduler


@pytest.mark.parametrize(
    ("wrong", "ahead"),
    [
        (_WrongCache, False),
        (_WrongVictim, False),
        (_wrong_budget, False),
        (_wrong_names, False),
        (_WrongCache, True),
        (_Forgetful, True),
        (_TooEager, True),
        (_wrong_depth, True),
    ],
)
def test_a_wrong_simulator_is_found_out(wrong: MakeScheduler, ahead: bool) -> None:
    def side(config: SchedulerConfig) -> SimSide:
        return SimSide(config, wrong)

    traces = (generate(seed, async_scheduling=ahead) for seed in range(TRACES))
    differences = (first_difference(trace, VllmSide, side) for trace in traces)
    found = next((difference for difference in differences if difference is not None), None)
    assert found is not None
    shown = readable(found)
    assert f"seed {found.trace.seed}, step {found.step}" in shown
    assert "vLLM" in shown
    assert "sim" in shown
