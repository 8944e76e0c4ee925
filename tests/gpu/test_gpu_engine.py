"""The same engine on NVIDIA GPUs: what the CPU tests cannot see."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from control_plane.contracts.errors import DropReason
from tests.real_vllm.asker import TIMEOUT_S, Asker
from tests.real_vllm.conftest import real_spec
from workers.engine.vllm_engine import VllmEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")

FRANCE = "The capital of France is"
ENGINE_ARGS = {"gpu_memory_utilization": 0.5, "max_num_seqs": 64}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Asker]:
    spec = real_spec(tmp_path_factory.mktemp("gpu"), gpus=[0], dtype="bfloat16", kv_bytes=0, engine_args=ENGINE_ARGS)
    engine = VllmEngine(spec)
    try:
        yield Asker(engine, await engine.start())
    finally:
        await engine.stop()
        assert engine.pids() == ()


async def test_it_runs_on_the_gpu_that_the_spec_names(asker: Asker) -> None:
    assert asker.engine.device == "cuda:0"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"
    assert asker.model.dtype == "bfloat16"
    assert asker.model.kv_bytes > 1 << 30


async def test_it_knows_the_capital_of_france(asker: Asker) -> None:
    assert (await asker.ask(FRANCE, max_tokens=4)).text().startswith(" Paris")


async def test_sixty_four_at_once_leave_nothing(asker: Asker) -> None:
    replies = [asker.submit(f"{number} plus one is", max_tokens=64, ignore_eos=True)[1] for number in range(64)]
    await asyncio.gather(*(reply.end(TIMEOUT_S) for reply in replies))
    assert [len(reply.token_ids()) for reply in replies] == [64] * 64
    await asker.until_idle()


async def test_an_abort_frees_every_block(asker: Asker) -> None:
    number, reply = asker.submit(FRANCE, max_tokens=900, ignore_eos=True)
    await asyncio.wait_for(reply.begun.wait(), TIMEOUT_S)
    asker.engine.abort(number)
    await asker.until_idle()


@pytest.mark.gpus(2)
async def test_a_model_split_over_two_gpus_says_the_same(tmp_path: Path) -> None:
    spec = real_spec(tmp_path, gpus=[0, 1], tensor_parallel=2, dtype="bfloat16", kv_bytes=0, engine_args=ENGINE_ARGS)
    engine = VllmEngine(spec)
    try:
        asker = Asker(engine, await engine.start())
        assert (await asker.ask(FRANCE, max_tokens=4)).text().startswith(" Paris")
    finally:
        await engine.stop()


@pytest.mark.parametrize("level", [1, 2])
async def test_it_sleeps_wakes_and_says_the_same(tmp_path: Path, level: int) -> None:
    arguments = {**ENGINE_ARGS, "gpu_memory_utilization": 0.3, "enable_sleep_mode": True}
    spec = real_spec(tmp_path, gpus=[0], dtype="bfloat16", kv_bytes=0, kv_events=True, engine_args=arguments)
    engine = VllmEngine(spec)
    try:
        asker = Asker(engine, await engine.start())
        before = (await asker.ask(FRANCE, max_tokens=12)).token_ids()
        await asker.until_idle()
        await engine.sleep(level)
        assert not engine.cached_blocks().hashes
        await engine.wake()
        assert (await asker.ask(FRANCE, max_tokens=12)).token_ids() == before
    finally:
        await engine.stop()


async def test_a_killed_core_is_reported(asker: Asker) -> None:
    reply = asker.submit(FRANCE, max_tokens=900, ignore_eos=True)[1]
    await asyncio.wait_for(reply.begun.wait(), TIMEOUT_S)
    os.kill(asker.engine.pids()[0], signal.SIGKILL)
    assert "was killed by SIGKILL" in await asyncio.wait_for(asker.engine.dead(), TIMEOUT_S)
    assert (await reply.end(TIMEOUT_S)).error_code == DropReason.ENGINE_DEAD
