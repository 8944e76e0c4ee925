"""What a real engine tells of its prefix cache, against the block pool in its own process."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from vllm.v1.core.kv_cache_utils import get_block_hash, maybe_convert_block_hash
from vllm.v1.engine.core import EngineCore

from control_plane.contracts.block_hash import block_hashes
from control_plane.contracts.kv_events import KvFrame
from control_plane.contracts.kv_mirror import KvMirror
from control_plane.contracts.step import EngineStep
from tests.real_vllm.asker import TIMEOUT_S, Asker
from tests.real_vllm.conftest import real_spec
from workers.engine import vllm_kv_events
from workers.engine.vllm_engine import VllmEngine
from workers.kv_watch import KvWatch

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.forks, pytest.mark.core_here]

SHARED = list(range(1000, 1064))  # two blocks of 32
SMALL = {"max_num_seqs": 8, "max_num_batched_tokens": 256, "num_gpu_blocks_override": 33}


def pool_hashes(core: Any) -> list[int]:
    """Runs in the engine core's process."""
    cache = core.scheduler.kv_cache_manager.block_pool.cached_block_hash_to_block._cache
    return [maybe_convert_block_hash(get_block_hash(key)) for key in cache]


async def follow(watch: KvWatch, mirror: KvMirror, frames: list[KvFrame]) -> None:
    async for frame in watch.frames(1, "i"):
        frames.append(frame)
        assert mirror.apply(frame)


async def test_the_pool_of_a_real_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shared prefixes, equal prompts at once, salts, evictions, preemptions, a cleared cache."""
    monkeypatch.setattr(EngineCore, "test_pool_hashes", pool_hashes, raising=False)
    engine = VllmEngine(real_spec(tmp_path, kv_events=True, engine_args=SMALL))
    watch, mirror, frames = KvWatch(engine, "i"), KvMirror(), list[KvFrame]()
    following = asyncio.create_task(follow(watch, mirror, frames))
    chosen = random.Random(3)
    steps: list[EngineStep] = []
    engine.on_steps = steps.extend

    async def compare(asker: Asker) -> None:
        await asker.until_idle()
        core = engine._llm.engine_core
        theirs = set(await core.call_utility_async("test_pool_hashes"))
        cache = engine._cache
        assert cache is not None
        assert cache.translation.known() == theirs
        snapshot = set(engine.cached_blocks().hashes)
        assert len(snapshot) == len(theirs)
        async with asyncio.timeout(TIMEOUT_S):
            while mirror.seq < engine.cached_blocks().seq:  # noqa: ASYNC110 - only for what is on its way
                await asyncio.sleep(0.01)
        assert mirror.hashes == snapshot

    try:
        asker = Asker(engine, await engine.start())
        await compare(asker)
        for _ in range(2):
            replies = []
            for _ in range(6):
                tail = [chosen.randrange(2000, 2003) for _ in range(chosen.randrange(1, 100))]
                prompt = SHARED[: chosen.choice((0, 32, 64))] + tail
                for _ in range(chosen.choice((1, 1, 2))):
                    salt = chosen.choice(("", "tenant"))
                    tokens = chosen.randrange(10, 40)
                    replies.append(asker.submit(prompt, max_tokens=tokens, ignore_eos=True, cache_salt=salt)[1])
            for reply in replies:
                await reply.end(TIMEOUT_S)
            await compare(asker)
        # Each needs five blocks in the end, and there are 32.
        replies = [asker.submit([3000 + number] * 33, max_tokens=100, ignore_eos=True)[1] for number in range(8)]
        for reply in replies:
            await reply.end(TIMEOUT_S)
        await compare(asker)
        assert any(step.preempted for step in steps)
        assert sum(len(event.removed) for frame in frames for batch in frame.batches for event in batch.events) > 10

        assert await engine._llm.reset_prefix_cache()
        reply = await asker.ask(SHARED, max_tokens=2, ignore_eos=True, cache_salt="after")
        await compare(asker)
        assert mirror.hashes == set(block_hashes(SHARED, 32, "after"))
        done = (await asker.ask(SHARED, max_tokens=1, cache_salt="after")).last.done
        assert reply.last.done is not None
        assert done is not None
        assert (reply.last.done.cached_tokens, done.cached_tokens) == (0, 32)
        assert (mirror.gaps, mirror.lost) == (0, 0)
    finally:
        following.cancel()
        await engine.stop()


async def test_an_engine_whose_events_fail_serves_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(event: Any) -> Any:
        raise RuntimeError("of the test")

    monkeypatch.setattr(vllm_kv_events, "_told", broken)
    engine = VllmEngine(real_spec(tmp_path, kv_events=True))
    watch = KvWatch(engine, "i")
    try:
        asker = Asker(engine, await engine.start())
        reply = await asker.ask(SHARED, max_tokens=40, ignore_eos=True)
        assert len(reply.token_ids()) == 40
        why = "an event could not be told: RuntimeError: of the test"
        assert [frame.unavailable async for frame in watch.frames(0, "")] == [why]
        assert (await asker.ask("The capital of France is", max_tokens=4)).text().startswith(" Paris")
        assert engine.cached_blocks().hashes == ()
    finally:
        await engine.stop()
