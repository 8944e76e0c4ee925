"""Engines and workers that die, and what is left of them: nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from pathlib import Path

import pytest

from control_plane.contracts.errors import DropReason, WorkerLost
from control_plane.contracts.worker_spec import start_ticks
from tests.real_vllm.asker import Asker
from tests.real_vllm.conftest import real_spec
from workers.engine.vllm_engine import VllmEngine

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.forks]

TIMEOUT_S = 30.0
PROMPT = "Once upon a time"


def leftovers(pid: int = 0) -> set[str]:
    """What the engines of a process (this one) have left in the file system."""
    pid = pid or os.getpid()
    return {str(path) for path in Path(tempfile.gettempdir()).glob(f"inferdeck-engine-{pid}-*")}


async def started(folder: Path) -> Asker:
    engine = VllmEngine(real_spec(folder))
    return Asker(engine, await engine.start())


async def test_a_killed_core_is_reported_and_fails_every_call(tmp_path: Path) -> None:
    asker = await started(tmp_path)
    assert not leftovers()
    try:
        pids = asker.engine.pids()
        plain = asker.submit(PROMPT, max_tokens=200, ignore_eos=True, stream=False)[1]
        streams = [asker.submit(PROMPT, max_tokens=200, ignore_eos=True, n=2, temperature=1.0)[1] for _ in range(3)]
        async with asyncio.timeout(TIMEOUT_S):
            await streams[0].begun.wait()
        os.kill(pids[0], signal.SIGKILL)
        cause = await asyncio.wait_for(asker.engine.dead(), TIMEOUT_S)
        assert f"engine core {pids[0]} was killed by SIGKILL" in cause
        for reply in (plain, *streams):
            await reply.end(TIMEOUT_S)
            assert reply.error_code == DropReason.ENGINE_DEAD
        with pytest.raises(WorkerLost):
            asker.submit(PROMPT)
        assert asker.engine.pids() == ()
        assert asker.engine.load().running == asker.engine.load().waiting == 0
    finally:
        await asker.engine.stop()
    assert not leftovers()


async def test_a_core_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.v1.core.sched.scheduler import Scheduler

    schedule = Scheduler.schedule

    def fail(self: Scheduler, *args: object, **kwargs: object) -> object:
        if any(request.max_tokens == 77 for request in self.requests.values()):
            raise ZeroDivisionError("no room for 77")
        return schedule(self, *args, **kwargs)

    # The core is forked from here, with this in it.
    monkeypatch.setattr(Scheduler, "schedule", fail)
    asker = await started(tmp_path)
    try:
        reply = asker.submit(PROMPT, max_tokens=77)[1]
        cause = await asyncio.wait_for(asker.engine.dead(), TIMEOUT_S)
        assert "ZeroDivisionError: no room for 77" in cause
        await reply.end(TIMEOUT_S)
        assert reply.error_code == DropReason.ENGINE_DEAD
    finally:
        await asker.engine.stop()


async def test_stop_ends_what_runs_and_leaves_no_process(tmp_path: Path) -> None:
    asker = await started(tmp_path)
    ticks = {pid: start_ticks(pid) for pid in asker.engine.pids()}
    reply = asker.submit(PROMPT, max_tokens=500, ignore_eos=True)[1]
    await asker.engine.stop()
    assert reply.ended.is_set()
    assert ticks
    assert all(start_ticks(pid) != known for pid, known in ticks.items())
    assert not leftovers()
    await asker.engine.stop()


async def test_an_engine_can_be_stopped_while_it_loads(tmp_path: Path) -> None:
    engine = VllmEngine(real_spec(tmp_path))
    loading = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hear(words: str, done: float) -> None:
        if words == "loading the model":
            loop.call_soon_threadsafe(loading.set)

    engine.on_progress = hear
    start = asyncio.create_task(engine.start())
    await asyncio.wait_for(loading.wait(), 200)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(start, TIMEOUT_S)
    assert engine.pids() == ()
    assert not leftovers()
