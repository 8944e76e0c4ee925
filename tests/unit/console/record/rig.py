"""A recorder that follows a platform in memory, with a clock that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from console.record import recorder as module
from console.record.kinds import Kind
from console.record.reader import RecordingReader
from console.record.recorder import Recorder
from console.record.recording import Entry, Recording
from console.record.writer import RecordingWriter
from control_plane.contracts.step import StepFrame
from tests.snapshots.memory import NOW
from tests.unit.console.record.files import SESSION
from tests.unit.console.record.platform import Platform

PATIENCE_S = 20.0


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits in a test for what a platform needs."""
    monkeypatch.setattr(module, "FLUSH_S", 0.01)
    monkeypatch.setattr(module, "FIRST_RETRY_S", 0.01)
    monkeypatch.setattr(module, "LAST_RETRY_S", 0.02)


@dataclass
class Recorded:
    path: Path
    platform: Platform
    recorder: Recorder
    writer: RecordingWriter
    ending: asyncio.Event
    now: list[float]
    running: asyncio.Task[None]
    told: list[str] = field(default_factory=list)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110  # of another thread too
                await asyncio.sleep(0.005)

    async def hear(self, *told: Any) -> None:
        for one in told:
            before = self.recorder.tally.snapshots
            self.platform.snapshots.put_nowait(one)
            await self.until(lambda before=before: self.recorder.tally.snapshots > before)  # type: ignore[misc]
            self.now[0] += 0.5

    async def steps_of(self, worker_id: str, *frames: StepFrame) -> None:
        for frame in frames:
            before = self.recorder.tally.steps
            self.platform.frames[worker_id].put_nowait(frame)
            await self.until(lambda before=before: self.recorder.tally.steps > before)  # type: ignore[misc]


@asynccontextmanager
async def recording(
    path: Path, platform: Platform | None = None, *, steps: bool = True, ticking: bool = False
) -> AsyncIterator[Recorded]:
    platform = platform or Platform()
    now = [NOW]
    told: list[str] = []

    def clock() -> float:
        now[0] += 1e-4 if ticking else 0.0
        return now[0]

    with RecordingWriter.open(path, SESSION) as writer:
        recorder = Recorder(platform.connect, writer, SESSION, steps=steps, clock=clock, tell=told.append)
        ending = asyncio.Event()
        running = asyncio.create_task(recorder.run(ending))
        driven = Recorded(path, platform, recorder, writer, ending, now, running, told)
        yield driven
        ending.set()
        await asyncio.wait_for(running, PATIENCE_S)
        await recorder.finish("the test is over")


def entries(path: Path, *only: Kind) -> list[Entry]:
    with RecordingReader.open(path) as reader:
        found = Recording(reader)
        read = list(found.entries(only=only))
        assert found.unreadable == 0
        assert reader.damages == []
    return read


def values(path: Path, kind: type[Any]) -> list[Any]:
    return [entry.value for entry in entries(path) if isinstance(entry.value, kind)]
