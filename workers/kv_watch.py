"""The worker's side of the KV events: who watches an engine's prefix cache, and what they are sent.

The engine hands its batches over and goes on. Every watcher has a place in the ring and takes from there at its own
pace; one that falls out of the ring's end has lost batches, and begins anew with a snapshot of the engine's own set.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from control_plane.contracts.kv_events import KvBatch, KvFrame, KvSnapshot
from workers.engine.base import Engine, TellsKvEvents
from workers.kv_ring import KvRing

FRAME_HASHES: Final = 32_768
"""The most hashes in one frame, unless a single batch has more: 256 KiB."""

GAP_S = 0.005
"""Batches that come faster than this go out together."""

NO_EVENTS: Final = "this engine does not tell its KV events"


class KvWatch:
    """Make it before the engine starts, and in its event loop. ``instance_id`` is the worker's."""

    def __init__(self, engine: Engine, instance_id: str, ring: KvRing | None = None) -> None:
        self._engine = engine if isinstance(engine, TellsKvEvents) else None
        self._instance_id = instance_id
        self._ring = ring or KvRing()
        self._news: set[asyncio.Event] = set()
        self._over = False
        if self._engine is not None:
            self._engine.on_kv_events = self.receive

    @property
    def unavailable(self) -> str:
        """Why there are no events; empty where there are."""
        return NO_EVENTS if self._engine is None else self._engine.no_kv_events()

    def receive(self, batches: Sequence[KvBatch]) -> None:
        """Never blocks, whoever watches. Without a batch: look again whether there are events."""
        self._ring.extend(batches)
        self._wake()

    def end(self) -> None:
        """Nothing more comes: watchers get what is left, and end."""
        self._over = True
        self._wake()

    async def frames(self, from_seq: int, instance_id: str) -> AsyncGenerator[KvFrame, None]:
        """The first frame comes at once: the batches from ``from_seq``, which may be none yet, or a snapshot where
        that is 0, is not kept, or is of another instance."""
        ring, lost, greeted = self._ring, 0, False
        place = ring.place_of(from_seq) if from_seq and instance_id == self._instance_id else None
        news = asyncio.Event()
        self._news.add(news)
        try:
            while True:
                news.clear()
                if why := self.unavailable:
                    yield KvFrame(self._instance_id, lost=lost, unavailable=why)
                    return
                if place is not None and place < ring.begin:
                    lost += ring.begin - place
                    place = None
                if place is None:
                    pieces = self._snapshot()
                    place = ring.end
                    for piece in pieces:
                        yield KvFrame(self._instance_id, piece, lost=lost)
                    greeted = True
                    continue
                batches = ring.piece(place, FRAME_HASHES)
                place += len(batches)
                if batches or not greeted:
                    greeted = True
                    yield KvFrame(self._instance_id, batches=tuple(batches), lost=lost)
                if place < ring.end:
                    await asyncio.sleep(0)
                    continue
                if self._over:
                    return
                await news.wait()
                if not self._over:
                    await asyncio.sleep(GAP_S)
        finally:
            self._news.discard(news)

    def _snapshot(self) -> list[KvSnapshot]:
        """In pieces. What the engine tells while it is asked is in it, and in the ring."""
        assert self._engine is not None
        whole = self._engine.cached_blocks()
        starts = range(0, max(1, len(whole.hashes)), FRAME_HASHES)
        return [
            KvSnapshot(whole.seq, whole.hashes[start : start + FRAME_HASHES], start + FRAME_HASHES < len(whole.hashes))
            for start in starts
        ]

    def _wake(self) -> None:
        for news in self._news:
            news.set()
