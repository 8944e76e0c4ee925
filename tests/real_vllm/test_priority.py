"""A real engine with little KV: a call of a higher priority overtakes in its queue, and takes a lower one's blocks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from control_plane.contracts.step import EngineStep
from control_plane.contracts.worker import ModelInfo
from tests.real_vllm.asker import TIMEOUT_S, Asker
from tests.real_vllm.conftest import real_spec
from tests.worker_client import Reply
from workers.engine.vllm_engine import VllmEngine
from workers.step_watch import StepWatch

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.forks]

FREE, ENTERPRISE = 10, -10
"""As a router tells an engine of the tiers: lower is served first."""

KV_BYTES = 14 << 20
"""Eight blocks of 32 tokens, in float32, beside the one that vLLM keeps for itself."""


class Small:
    """An engine with room for one and a half calls, and every step it has taken."""

    def __init__(self, engine: VllmEngine, model: ModelInfo) -> None:
        self.asker = Asker(engine, model)
        self.submit = self.asker.submit
        self._engine = engine
        self._watch = StepWatch(engine)

    async def steps(self) -> list[EngineStep]:
        last = await self._engine.blocks()
        async with asyncio.timeout(TIMEOUT_S):
            while self._watch.state().step < last.step:  # noqa: ASYNC110 - only for what is on its way
                await asyncio.sleep(0.01)
        return [step async for frame in self._watch.frames(0, live=False) for step in frame.steps]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def small(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Small]:
    spec = real_spec(
        tmp_path_factory.mktemp("small"),
        dtype="float32",
        max_context=256,
        kv_bytes=KV_BYTES,
        engine_args={"max_num_seqs": 2, "max_num_batched_tokens": 512},
    )
    engine = VllmEngine(spec)
    try:
        yield Small(engine, await engine.start())
    finally:
        await engine.stop()


async def ended(*replies: Reply) -> None:
    await asyncio.gather(*(reply.end(TIMEOUT_S) for reply in replies))


async def begun(*replies: Reply) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        await asyncio.gather(*(reply.begun.wait() for reply in replies))


async def test_who_matters_more_takes_the_blocks_of_who_matters_less_and_the_victim_is_told(small: Small) -> None:
    # Each needs six blocks in the end.
    assert small.asker.model.total_blocks < 12
    await small.asker.until_idle()
    victim_number, victim = small.submit(list(range(1000, 1060)), max_tokens=120, ignore_eos=True, priority=FREE)
    await begun(victim)
    taker_number, taker = small.submit(list(range(2000, 2060)), max_tokens=120, ignore_eos=True, priority=ENTERPRISE)
    await ended(victim, taker)
    steps = await small.steps()

    lost, won = victim.last.done, taker.last.done
    assert lost is not None
    assert won is not None
    assert lost.stages.preemptions >= 1
    assert won.stages.preemptions == 0
    preempted = [step.step for step in steps if f"real-{victim_number}" in step.preempted]
    assert len(preempted) == lost.stages.preemptions
    assert not any(f"real-{taker_number}" in step.preempted for step in steps)
    ends = {each.request_id: step.step for step in steps for each in step.finished}
    assert ends[f"real-{taker_number}"] < ends[f"real-{victim_number}"], "who came later is through first"
    assert (lost.output_tokens, won.output_tokens) == (120, 120)
    resumed = [row for step in steps for row in step.rows if row.request_id == f"real-{victim_number}" and row.resumed]
    assert len(resumed) == len(preempted)


async def test_who_matters_more_overtakes_in_the_engines_queue(small: Small) -> None:
    await small.asker.until_idle()
    running = [small.submit(list(range(n, n + 8)), max_tokens=60, ignore_eos=True)[1] for n in (3000, 4000)]
    await begun(*running)
    free_number, free = small.submit(list(range(5000, 5008)), max_tokens=4, ignore_eos=True, priority=FREE)
    first_number, first = small.submit(list(range(6000, 6008)), max_tokens=4, ignore_eos=True, priority=ENTERPRISE)
    await ended(*running, free, first)
    joined = {row.request_id: step.step for step in await small.steps() for row in step.rows if row.joined}
    assert joined[f"real-{first_number}"] <= joined[f"real-{free_number}"]
    ends = {each.request_id: step.step for step in await small.steps() for each in step.finished}
    assert ends[f"real-{first_number}"] <= ends[f"real-{free_number}"]
