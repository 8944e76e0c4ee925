"""One model split over processes: real tensor parallelism, on the CPU, slow."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from control_plane.contracts.errors import DropReason
from tests.real_vllm.asker import TIMEOUT_S, Asker
from tests.real_vllm.conftest import real_spec
from tests.real_vllm.test_death import leftovers
from workers.engine.vllm_engine import VllmEngine

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.forks]


async def test_a_split_model_says_the_same_and_dies_whole(tmp_path: Path) -> None:
    shared = set(os.listdir("/dev/shm"))
    spec = real_spec(tmp_path, tensor_parallel=3, kv_bytes=64 << 20, engine_args={"max_num_seqs": 4})
    engine = VllmEngine(spec)
    asker = Asker(engine, await engine.start())
    try:
        assert asker.model.tensor_parallel == 3
        reply = await asker.ask("The capital of France is", max_tokens=3)
        assert reply.text().startswith(" Paris")
        names = {pid: psutil.Process(pid).name() for pid in engine.pids()}
        ranks = [pid for pid, name in names.items() if "Worker" in name]
        assert len(ranks) == 3
        running = asker.submit("Once upon a time", max_tokens=500, ignore_eos=True)[1]
        os.kill(ranks[1], signal.SIGKILL)
        assert "engine core" in await asyncio.wait_for(engine.dead(), TIMEOUT_S)
        assert (await running.end(TIMEOUT_S)).error_code == DropReason.ENGINE_DEAD
    finally:
        await engine.stop()
    assert engine.pids() == ()
    assert not leftovers()
    assert not {name for name in set(os.listdir("/dev/shm")) - shared if name.startswith("psm_")}
