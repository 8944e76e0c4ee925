"""What every engine that can sleep must do (``Sleeps``), and what one that can't: say why, and serve on."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from control_plane.contracts.errors import Conflict, DropReason, Unavailable
from control_plane.contracts.kv_events import KvBatch
from tests.contract.engines import engine_spec
from tests.contract.test_engine import TIMEOUT_S, Subject
from workers.engine.base import Sleeps, TellsKvEvents
from workers.engines import make_engine

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

LONG = [3 + number % 90 for number in range(300)]


class Sleeping(Subject):
    """``told`` are the KV events since the start."""

    told: list[KvBatch]

    @property
    def sleeps(self) -> Sleeps:
        assert isinstance(self.engine, Sleeps)
        return self.engine

    async def cached(self) -> int:
        done = (await self.ask(LONG, max_tokens=1)).last.done
        assert done is not None
        return done.cached_tokens


async def running(name: str, directory: Path) -> AsyncIterator[Sleeping]:
    engine = make_engine(replace(engine_spec(name, directory), kv_events=name != "scripted"))
    told: list[KvBatch] = []

    def hear(batches: Sequence[KvBatch]) -> None:
        told.extend(batches)

    if isinstance(engine, TellsKvEvents):
        engine.on_kv_events = hear
    try:
        subject = Sleeping(engine, await engine.start())
        subject.told = told
        yield subject
    finally:
        await engine.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["scripted", "sim", "sim-async"])
async def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sleeping]:
    async for subject in running(request.param, tmp_path_factory.mktemp(request.param)):
        yield subject


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sleeping]:
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed")
    async for subject in running("vllm", tmp_path_factory.mktemp("vllm")):
        yield subject


@pytest.mark.parametrize("level", [1, 2])
async def test_it_forgets_its_cache_and_serves_again(subject: Sleeping, level: int) -> None:
    assert not subject.sleeps.no_sleep()
    before = await subject.ask()
    await subject.cached()
    assert await subject.cached() > 200
    await subject.until_idle()
    await subject.sleeps.sleep(level)
    assert subject.engine.load().used_blocks == 0
    await subject.sleeps.wake()
    assert await subject.cached() == 0
    assert await subject.cached() > 200
    assert (await subject.ask()).token_ids() == before.token_ids()


async def test_its_kv_events_say_that_nothing_is_cached(subject: Sleeping) -> None:
    if not isinstance(subject.engine, TellsKvEvents):
        pytest.skip("it tells no KV events")
    await subject.cached()
    await subject.until_idle()
    assert subject.engine.cached_blocks().hashes
    await subject.sleeps.sleep(1)
    assert subject.told[-1].events[-1].cleared
    assert not subject.engine.cached_blocks().hashes
    await subject.sleeps.wake()


async def test_what_sleeps_takes_no_calls_and_sleeps_no_deeper(subject: Sleeping) -> None:
    await subject.until_idle()
    falling = asyncio.create_task(subject.sleeps.sleep(1))
    await asyncio.sleep(0)
    with pytest.raises(Unavailable) as refused:
        subject.submit()
    assert refused.value.reason is DropReason.DRAINING
    await falling
    with pytest.raises(Conflict, match="sleeps already, at level 1"):
        await subject.sleeps.sleep(2)
    waking = asyncio.create_task(subject.sleeps.wake())
    await asyncio.sleep(0)
    await waking
    with pytest.raises(Conflict, match="does not sleep"):
        await subject.sleeps.wake()
    assert len((await subject.ask()).token_ids()) == 12


async def test_it_does_not_sleep_while_a_call_is_open(subject: Sleeping) -> None:
    number, reply = subject.submit(max_tokens=400)
    with pytest.raises(Conflict, match="1 open call"):
        await subject.sleeps.sleep(1)
    subject.engine.abort(number)
    await reply.end(TIMEOUT_S)
    with pytest.raises(Conflict, match="no level 3"):
        await subject.sleeps.sleep(3)
    assert len((await subject.ask()).token_ids()) == 12


@pytest.mark.real_vllm
@pytest.mark.forks
async def test_vllm_on_the_cpu_says_what_it_lacks_and_serves_on(on_cpu: Sleeping) -> None:
    await on_cpu.cached()
    assert await on_cpu.cached() > 200
    reason = on_cpu.sleeps.no_sleep()
    assert reason.startswith("sleep needs a GPU and enable_sleep_mode")
    with pytest.raises(Conflict) as refused:
        await on_cpu.sleeps.sleep(1)
    assert refused.value.message == reason
    with pytest.raises(Conflict):
        await on_cpu.sleeps.wake()
    assert await on_cpu.cached() > 200, "and nothing is lost"
