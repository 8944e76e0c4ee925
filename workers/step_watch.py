"""The worker's side of the step trace: who watches an engine's steps, and what they are sent.

The engine hands its steps over and goes on. Every watcher has a place in the ring and takes from there at its own
pace; one that falls out of the ring's end has lost steps, and begins anew with the tables as they are there.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from control_plane.contracts.errors import Conflict, InvalidRequest
from control_plane.contracts.step import BlockSnapshot, EngineStep, StepFrame, TraceMode, TraceState
from workers.engine.base import Engine, TracesSteps
from workers.request_steps import concerning
from workers.step_ring import CAPACITY, StepRing

FRAME: Final = 128
"""The most steps in one frame."""

FRAME_ROWS: Final = 512
"""The most rows in one frame, unless a single step has more: a millisecond to send."""

SCAN: Final = 256
SCAN_ROWS: Final = 4_096
"""The most steps, and their rows, that are looked at before the event loop has its turn."""

GAP_S = 0.04
"""Steps that come faster than this go out together."""

NO_TRACE: Final = "this engine does not tell its steps"


class StepWatch:
    """Make it before the engine starts, and in its event loop."""

    def __init__(self, engine: Engine, capacity: int = CAPACITY) -> None:
        self._engine = engine if isinstance(engine, TracesSteps) else None
        self._capacity = capacity
        self._ring = StepRing(capacity)
        self._news: set[asyncio.Event] = set()
        self._over = False
        if self._engine is not None:
            self._engine.on_steps = self.receive

    def describe(self, total_blocks: int, block_size: int) -> None:
        """What the pool is, known when the engine has started: before its first watcher."""
        steps = self._ring.at(self._ring.begin, self._capacity)
        self._ring = StepRing(self._capacity, total_blocks=total_blocks, block_size=block_size)
        self._ring.extend(steps)

    def receive(self, steps: Sequence[EngineStep]) -> None:
        """Never blocks, whoever watches."""
        self._ring.extend(steps)
        self._wake()

    def end(self) -> None:
        """Nothing more comes: watchers get what is left, and end."""
        self._over = True
        self._wake()

    def state(self, lost: int = 0) -> TraceState:
        """``lost``: what a watcher was too slow for."""
        if self._engine is None:
            return TraceState(unavailable=NO_TRACE)
        told = self._engine.trace()
        return dataclasses.replace(told, first_kept=self._ring.first_kept, dropped=told.dropped + lost)

    async def set_trace(self, mode: TraceMode, every: int) -> TraceState:
        """UNSPECIFIED only tells. Raises InvalidRequest, Conflict where there is no trace, WorkerLost."""
        if mode is TraceMode.SAMPLED and every < 2:
            raise InvalidRequest(
                f"every {every}: a sampled trace takes every n-th step, n at least 2",
                param="every",
                hint="give 2 or more, or the mode full",
            )
        if mode is TraceMode.UNSPECIFIED:
            return self.state()
        if self._engine is None:
            raise Conflict(NO_TRACE)
        await self._engine.set_trace(mode, every if mode is TraceMode.SAMPLED else 1)
        self._wake()
        return self.state()

    async def blocks(self) -> BlockSnapshot:
        """Raises Conflict where the engine tells no blocks, WorkerLost."""
        if self._engine is None:
            raise Conflict("this engine does not tell its blocks")
        return await self._engine.blocks()

    async def frames(self, from_step: int, *, live: bool, last_steps: int = 0) -> AsyncGenerator[StepFrame, None]:
        """The tables before ``from_step`` (or before the oldest step kept), the steps kept since, then each new one.

        ``last_steps``: of the steps kept, no more than so many; 0: all.
        """
        ring, lost = self._ring, 0
        told: tuple[object, ...] | None = None
        base: BlockSnapshot | None
        news = asyncio.Event()
        self._news.add(news)
        try:
            place, base = await self._start(from_step, last_steps)
            while True:
                news.clear()
                if place < ring.begin:
                    lost += ring.begin - place
                    place, base = ring.begin, ring.base()
                steps = ring.piece(place, FRAME, FRAME_ROWS)
                place += len(steps)
                state = self.state(lost)
                if steps or base is not None or (state.mode, state.every, state.unavailable) != told:
                    told = (state.mode, state.every, state.unavailable)
                    yield StepFrame(tuple(steps), state, base)
                    base = None
                if place < ring.end:
                    await asyncio.sleep(0)
                    continue
                if not live or self._over or state.unavailable:
                    return
                await asyncio.sleep(GAP_S)
                await news.wait()
        finally:
            self._news.discard(news)

    async def frames_of(self, request_id: str) -> AsyncGenerator[StepFrame, None]:
        """What the steps kept have of a request and its choices. No base: its tables alone would mislead."""
        ring = self._ring
        place = ring.begin
        while place < ring.end:
            place = max(place, ring.begin)
            steps = ring.piece(place, SCAN, SCAN_ROWS)
            place += len(steps)
            found = [part for step in steps if (part := concerning(step, request_id)) is not None]
            if found:
                yield StepFrame(tuple(found), self.state())
            await asyncio.sleep(0)

    async def _start(self, from_step: int, last_steps: int) -> tuple[int, BlockSnapshot]:
        """A watcher's first place and its base. The loop has its turn while thousands of steps are skipped."""
        ring = self._ring
        first = ring.end - last_steps if last_steps else ring.begin
        if not from_step and first <= ring.begin:
            return ring.begin, ring.base()
        ground, place = ring.ground(), ring.begin
        while from_step or place < first:
            if place < ring.begin:
                ground, place = ring.ground(), ring.begin
            steps = ring.piece(place, SCAN, SCAN_ROWS)
            for step in steps:
                if step.step >= from_step and place >= first:
                    return place, ground.snapshot()
                ground.apply(step)
                place += 1
            if not steps:
                break
            await asyncio.sleep(0)
        return place, ground.snapshot()

    def _wake(self) -> None:
        for news in self._news:
            news.set()
