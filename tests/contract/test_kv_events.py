"""What every engine must tell of its prefix cache (``TellsKvEvents``), whichever it is."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import itertools
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from control_plane.contracts.block_hash import block_hashes
from control_plane.contracts.kv_mirror import KvMirror
from tests.contract.engines import engine_spec
from tests.contract.test_engine import Subject
from workers.engine.base import TellsKvEvents, TracesSteps
from workers.engines import make_engine
from workers.kv_watch import NO_EVENTS, KvWatch

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

FEW = {"sim": {"total_blocks": 64}, "vllm": {"num_gpu_blocks_override": 41}}
"""As few as hold one request of the whole context, or hardly more."""


class Told(Subject):
    """``mirror`` follows the engine from its start, ``watch`` is the worker's."""

    mirror: KvMirror
    watch: KvWatch

    async def settle(self) -> KvMirror:
        """When all that was told is in the mirror, and nothing runs."""
        await self.until_idle()
        assert isinstance(self.engine, TracesSteps)
        assert isinstance(self.engine, TellsKvEvents)
        await self.engine.blocks()  # whatever the engine has told before its answer is here
        seq = self.engine.cached_blocks().seq
        async with asyncio.timeout(30):
            while self.mirror.seq < seq:  # noqa: ASYNC110 - the mirror has no event
                await asyncio.sleep(0.002)
        return self.mirror

    def predicted(self, tokens: list[int], salt: str) -> int:
        """Of a prompt, how many tokens are to be found in the cache: never the last one."""
        size = self.model.block_size
        names = block_hashes(tokens, size, salt)[: (len(tokens) - 1) // size]
        return size * sum(1 for _ in itertools.takewhile(self.mirror.hashes.__contains__, names))

    async def cached(self, tokens: list[int], salt: str, max_tokens: int = 1) -> int:
        done = (await self.ask(tokens, max_tokens=max_tokens, cache_salt=salt)).last.done
        assert done is not None
        return done.cached_tokens


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=["sim", pytest.param("vllm", marks=[pytest.mark.real_vllm, pytest.mark.forks])],
)
async def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Told]:
    name: str = request.param
    if name == "vllm" and importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed")
    spec = engine_spec(name, tmp_path_factory.mktemp(name))
    spec = dataclasses.replace(spec, kv_events=True, engine_args={**spec.engine_args, **FEW[name]})
    engine = make_engine(spec)
    watch, mirror = KvWatch(engine, "i"), KvMirror()

    async def follow() -> None:
        async for frame in watch.frames(1, "i"):
            assert mirror.apply(frame)

    following = asyncio.create_task(follow())
    try:
        subject = Told(engine, await engine.start())
        subject.mirror, subject.watch = mirror, watch
        yield subject
        following.cancel()
        await asyncio.wait({following})
        assert following.cancelled()
    finally:
        await engine.stop()


async def test_it_tells_the_blocks_of_prompt_and_answer(told: Told) -> None:
    assert not told.watch.unavailable
    prompt = [(7 * n) % 200 + 300 for n in range(told.model.block_size * 3 + 5)]
    reply = await told.ask(prompt, max_tokens=told.model.block_size, cache_salt="s")
    mirror = await told.settle()
    # The last token was sampled, and not computed.
    names = block_hashes([*prompt, *reply.token_ids()[:-1]], told.model.block_size, "s")
    assert len(names) == 4
    assert set(names) <= mirror.hashes
    assert not set(block_hashes(prompt, told.model.block_size, "t")) & mirror.hashes


async def test_what_was_told_predicts_what_is_cached(told: Told) -> None:
    """Shared prefixes, two tenants, and more of them than the cache holds."""
    chosen = random.Random(5)
    size = told.model.block_size
    heads = [[chosen.randrange(300, 600) for _ in range(size * length)] for length in (2, 4, 7)]
    hits = misses = 0
    for _ in range(30):
        head = chosen.choice(heads)
        cut = chosen.choice((len(head), size, len(head) - 3))
        tail = [chosen.randrange(300, 302) for _ in range(chosen.choice((1, size, 3 * size)))]
        prompt, salt = head[:cut] + tail, chosen.choice(("", "tenant"))
        await told.settle()
        predicted = told.predicted(prompt, salt)
        assert await told.cached(prompt, salt) == predicted
        hits += predicted > 0
        misses += predicted == 0
        assert len((await told.settle()).hashes) <= told.model.total_blocks
    assert hits > 5
    assert misses > 3


async def test_requests_that_overlap_and_push_each_other_out(told: Told) -> None:
    size = told.model.block_size
    same = [300 + n % 251 for n in range(4 * size)]
    before = (await told.settle()).seq
    # Equal prompts at once are computed twice: one of the two blocks leaves first, and the content is still there.
    prompts = [same, same, *([n + 300, *(300 + n % 251 for n in range(7 * size))] for n in range(6))]
    replies = [told.submit(prompt, max_tokens=size)[1] for prompt in prompts]
    for reply in replies:
        await reply.end(120)
    mirror = await told.settle()
    assert mirror.seq > before
    for prompt in prompts:
        predicted = told.predicted(prompt, "")
        assert await told.cached(prompt, "") == predicted
        await told.settle()


async def test_a_late_watcher_knows_the_same(told: Told) -> None:
    mirror, late = await told.settle(), KvMirror()
    async for frame in told.watch.frames(*late.ask()):
        assert late.apply(frame)
        if late.seq:
            break
    assert (late.hashes, late.seq) == (mirror.hashes, mirror.seq)
    assert mirror.gaps == mirror.lost == 0


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("scripted", {}, NO_EVENTS),
        ("sim", {}, "KV events are off: kv_events of the pool"),
        ("sim", {"enable_prefix_caching": False}, "the engine has no prefix cache"),
    ],
)
async def test_without_events_it_says_why(tmp_path: Path, name: str, arguments: dict[str, bool], why: str) -> None:
    spec = engine_spec(name, tmp_path)
    asked = "off" not in why
    spec = dataclasses.replace(spec, kv_events=asked, engine_args={**spec.engine_args, **arguments})
    engine = make_engine(spec)
    watch = KvWatch(engine, "i")
    subject = Told(engine, await engine.start())
    await subject.ask(max_tokens=2)
    assert [frame.unavailable async for frame in watch.frames(0, "")] == [why]
    await engine.stop()
