"""A platform in memory, as a recorder sees one: what it tells is put in by the test, and can break off."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from control_plane.contracts.decision import DecisionView
from control_plane.contracts.fleet import Event, Snapshot
from control_plane.contracts.step import (
    BlockSnapshot,
    EngineStep,
    StepFinished,
    StepFrame,
    StepKind,
    StepRow,
    TraceState,
)

Told = Snapshot | BaseException | None


@dataclass
class Platform:
    """``None`` ends a stream, an error breaks it; ``away`` refuses the next connections."""

    snapshots: asyncio.Queue[Told] = field(default_factory=asyncio.Queue)
    news: asyncio.Queue[Event | BaseException | None] = field(default_factory=asyncio.Queue)
    history: list[Event] = field(default_factory=list)
    frames: dict[str, asyncio.Queue[StepFrame | BaseException | None]] = field(
        default_factory=lambda: defaultdict(asyncio.Queue)
    )
    decided: asyncio.Queue[tuple[DecisionView, ...] | BaseException | None] = field(default_factory=asyncio.Queue)
    asked: list[tuple[str, int]] = field(default_factory=list)
    away: list[Exception] = field(default_factory=list)
    connections: int = 0

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Platform]:
        if self.away:
            raise self.away.pop(0)
        self.connections += 1
        yield self

    async def watch(self, interval_s: float = 0.0, *, finished_requests: bool = False) -> AsyncIterator[Snapshot]:
        assert finished_requests
        while (told := await self.snapshots.get()) is not None:
            if isinstance(told, BaseException):
                raise told
            yield told

    async def events(self, since: int = 0, *, follow: bool = False) -> AsyncIterator[Event]:
        for event in tuple(self.history):
            yield event
        while (told := await self.news.get()) is not None:
            if isinstance(told, BaseException):
                raise told
            yield told

    async def follow_decisions(self) -> AsyncIterator[tuple[DecisionView, ...]]:
        while (told := await self.decided.get()) is not None:
            if isinstance(told, BaseException):
                raise told
            yield told

    async def watch_steps(self, worker_id: str, from_step: int = 0, live: bool = True) -> AsyncIterator[StepFrame]:
        self.asked.append((worker_id, from_step))
        while (told := await self.frames[worker_id].get()) is not None:
            if isinstance(told, BaseException):
                raise told
            yield told


def base(step: int = 0, blocks: int = 32) -> BlockSnapshot:
    return BlockSnapshot(step, 1.0, 16, blocks, 0, 0, blocks)


def steps(first: int, number: int, *, request: str = "req-1", at: float = 1_700_000_000.0) -> tuple[EngineStep, ...]:
    """A request that takes a block with every step, and ends with the last one."""
    made = []
    for index in range(number):
        row = StepRow(
            request,
            StepKind.DECODE,
            16,
            16 * index,
            16,
            joined=index == 0,
            new_blocks=(index,),
            blocks=index + 1,
        )
        step = EngineStep(first + index, at + index * 0.05, 0.001, 0.04, 16, (row,), total_blocks=32)
        made.append(replace(step, used_blocks=index + 1, free_blocks=31 - index))
    last = made[-1]
    ended = (StepFinished(request, "stop", number, number),)
    made[-1] = replace(last, finished=ended, used_blocks=0, cached_free_blocks=number, free_blocks=32 - number)
    return tuple(made)


def state(step: int) -> TraceState:
    return TraceState(step=step, first_kept=1)
