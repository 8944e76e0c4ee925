"""KV events from an engine's hand to its watchers' sets: whatever is lost, in the end they are the same."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.kv_events import KvBatch, KvEvent, KvFrame, KvSnapshot
from control_plane.contracts.kv_mirror import KvMirror
from control_plane.contracts.wire.kv_events import kv_frame_from_wire, kv_frame_to_wire
from tests.scripted_worker import scripted_spec
from workers import kv_watch
from workers.engine.base import TellsKvEvents
from workers.engine.kv_journal import KvJournal
from workers.engine.scripted import ScriptedEngine
from workers.kv_ring import KvRing
from workers.kv_watch import NO_EVENTS, KvWatch


class Cache:
    """An engine's prefix cache, and nothing else of it. ``history`` has the set after each batch, by its number."""

    on_kv_events: Callable[[Sequence[KvBatch]], None]

    def __init__(self) -> None:
        self.journal = KvJournal()
        self.why = ""
        self.history: dict[int, set[int]] = {0: set()}
        self.on_kv_events = lambda batches: None

    def no_kv_events(self) -> str:
        return self.why

    def cached_blocks(self) -> KvSnapshot:
        return self.journal.snapshot()

    def change(self, names: Sequence[int], *, drop: bool = False) -> None:
        """Store what is not there, remove what is; 0 clears."""
        for name in names:
            if not name:
                self.journal.cleared()
            elif name in self.journal.hashes:
                self.journal.removed(name)
            else:
                self.journal.stored(name)
        batch = self.journal.batch()
        self.history[self.journal.seq] = set(self.journal.hashes)
        if batch is not None and not drop:
            self.on_kv_events((batch,))


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kv_watch, "FRAME_HASHES", 3)
        patch.setattr(kv_watch, "GAP_S", 0)
        yield


def watching(cache: Any, instance_id: str = "i", **ring: int) -> KvWatch:
    assert isinstance(cache, TellsKvEvents)
    return KvWatch(cache, instance_id, KvRing(**ring))  # type: ignore[arg-type]


class Follower:
    """Watches as a router does, over the wire's messages, as long as it may; ``go`` cleared, it reads nothing."""

    def __init__(self, cache: Cache, watch: KvWatch) -> None:
        self.cache, self.watch = cache, watch
        self.mirror = KvMirror()
        self.go = asyncio.Event()
        self.go.set()
        self.frames: list[KvFrame] = []

    async def run(self) -> None:
        while True:
            async with aclosing(self.watch.frames(*self.mirror.ask())) as frames:
                async for frame in frames:
                    await self.go.wait()
                    self.frames.append(frame)
                    if not self.mirror.apply(kv_frame_from_wire(kv_frame_to_wire(frame))):
                        break
                    assert self.mirror.hashes == self.cache.history[self.mirror.seq]


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


CHANGE = st.lists(st.integers(0, 12), min_size=1, max_size=6)
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("change"), CHANGE),
        st.tuples(st.just("drop"), CHANGE),
        st.tuples(st.sampled_from(["stop reading", "read", "connect anew", "restart"]), st.none()),
        st.tuples(st.just("wait"), st.integers(1, 20)),
    ),
    max_size=40,
)


@given(ACTS, st.integers(1, 6), st.integers(1, 30))
def test_any_batches_drops_and_resyncs_end_with_the_engines_own_set(
    acts: list[tuple[str, Any]], capacity: int, most_hashes: int
) -> None:
    async def play() -> None:
        cache, instance = Cache(), 0
        follower = Follower(cache, watching(cache, "0", capacity=capacity, most_hashes=most_hashes))
        task = asyncio.create_task(follower.run())
        try:
            for act, value in acts:
                if act in ("change", "drop"):
                    cache.change(value, drop=act == "drop")
                elif act == "stop reading":
                    follower.go.clear()
                elif act == "read":
                    follower.go.set()
                elif act == "wait":
                    await turns(value)
                else:
                    await cancelled(task)
                    if act == "restart":
                        instance += 1
                        cache = Cache()
                        follower.cache = cache
                        follower.watch = watching(cache, str(instance), capacity=capacity, most_hashes=most_hashes)
                    task = asyncio.create_task(follower.run())
            follower.go.set()
            cache.change([99])  # a gap is heard of with what comes after it
            await turns(300)
            assert not task.done() or task.result() is None
            assert follower.mirror.hashes == cache.journal.hashes
            assert (follower.mirror.seq, follower.mirror.instance_id) == (cache.journal.seq, str(instance))
        finally:
            await cancelled(task)

    asyncio.run(play())


async def cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def first(watch: KvWatch, from_seq: int, instance_id: str = "i") -> KvFrame:
    async with aclosing(watch.frames(from_seq, instance_id)) as frames:
        return await anext(frames)


async def test_where_a_watch_begins() -> None:
    cache = Cache()
    watch = watching(cache, capacity=2)
    assert (await first(watch, 0)).snapshot == KvSnapshot()
    assert await first(watch, 1) == KvFrame("i")  # nothing yet, and nothing missed
    for name in (1, 2, 3):
        cache.change([name])
    assert (await first(watch, 0)).snapshot == KvSnapshot(3, (1, 2, 3))
    assert [batch.seq for batch in (await first(watch, 2)).batches] == [2, 3]
    assert await first(watch, 4) == KvFrame("i")
    for seq, instance in ((1, "i"), (5, "i"), (2, "another")):
        assert (await first(watch, seq, instance)).snapshot is not None


async def test_a_slow_watcher_begins_anew_and_hears_how_much_it_lost() -> None:
    cache = Cache()
    watch = watching(cache, capacity=2)
    frames = watch.frames(1, "i")
    await anext(frames)
    for name in range(1, 6):
        cache.change([name])
    one, two = await anext(frames), await anext(frames)
    assert (one.snapshot, one.lost) == (KvSnapshot(5, (1, 2, 3), more=True), 3)
    assert (two.snapshot, two.lost) == (KvSnapshot(5, (4, 5)), 3)
    cache.change([6])
    assert [batch.seq for batch in (await anext(frames)).batches] == [6]
    await frames.aclose()


async def test_lost_events_stay_a_gap_until_the_watcher_asks_anew() -> None:
    cache = Cache()
    watch = watching(cache)
    cache.change([1])
    cache.change([2], drop=True)
    cache.change([3])
    [frame] = [await first(watch, 1)]
    assert [batch.seq for batch in frame.batches] == [1, 3]
    mirror = KvMirror()
    assert not mirror.apply(frame)
    assert mirror.apply(await first(watch, *mirror.ask()))
    assert (mirror.hashes, mirror.gaps) == ({1, 2, 3}, 1)


async def test_an_engine_without_events_says_why(tmp_path: Path) -> None:
    watch = KvWatch(ScriptedEngine(scripted_spec(tmp_path)), "i")
    assert [frame async for frame in watch.frames(0, "")] == [KvFrame("i", unavailable=NO_EVENTS)]


async def test_a_watcher_hears_when_there_are_no_events_any_more() -> None:
    cache = Cache()
    watch = watching(cache)
    frames = watch.frames(0, "")
    await anext(frames)
    cache.why = "they stopped"
    cache.on_kv_events(())
    assert [frame async for frame in frames] == [KvFrame("i", unavailable="they stopped")]


async def test_watchers_get_what_is_left_and_end_with_the_worker() -> None:
    cache = Cache()
    watch = watching(cache)
    frames = watch.frames(1, "i")
    await anext(frames)
    cache.change([1])
    watch.end()
    assert [batch.seq for frame in [frame async for frame in frames] for batch in frame.batches] == [1]


def test_the_ring_is_bounded_by_batches_and_by_hashes() -> None:
    ring = KvRing(capacity=3, most_hashes=10)
    for seq in range(1, 6):
        ring.extend([KvBatch(seq, (KvEvent(stored=(seq, -seq)),))])
    assert (ring.begin, ring.end) == (2, 5)
    ring.extend([KvBatch(6, (KvEvent(stored=tuple(range(20))),))])
    assert [batch.seq for batch in ring.piece(ring.begin, 1)] == [6]
