"""A console without a terminal, on a platform in memory, with a clock that a test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from textual import events
from textual.pilot import Pilot

from console.tui.app import STAYS, ConsoleApp
from console.tui.render.look import RICH_LOOK, Look
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.fleet import Snapshot
from tests.snapshots.memory import MemoryPlatform, snapshot

_ROUNDS = 200


@dataclass
class Console:
    app: ConsoleApp
    platform: MemoryPlatform
    pilot: Pilot[int]
    now: list[float] = field(default_factory=lambda: [1000.0])

    async def hear(self, item: Snapshot | InferDeckError) -> None:
        """The platform says this, and the console has taken it in."""
        before = self.app.live().link
        self.platform.queue.put_nowait(item)
        if isinstance(item, Snapshot):
            await self.until(lambda: self.app.live().snapshot is item)
        else:
            await self.until(lambda: before != self.app.live().link)

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
        await self.settle()

    async def type(self, text: str) -> None:
        names = {":": "colon", "/": "slash", " ": "space", "[": "left_square_bracket", "=": "equals_sign", "-": "minus"}
        await self.press(*(names.get(char, char) for char in text))

    async def burst(self, text: str) -> None:
        """All at once, as a fast typist or a paste does it."""
        for char in text:
            key = {":": "colon", "/": "slash", "\r": "enter"}.get(char, char)
            self.app.post_message(events.Key(key, char))
        await self.settle()

    async def command(self, line: str) -> None:
        """As if it had been typed, which takes a test much longer."""
        self.app.command(line)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(2):
            await self.pilot.pause()

    async def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(_ROUNDS):
            if condition():
                break
            await self.pilot.pause()
        assert condition(), "it did not come to that"
        await self.settle()

    async def pass_time(self, seconds: float) -> None:
        """The clock goes on, and the timer that paints what ages comes round."""
        self.now[0] += seconds
        self.app.paint()
        await self.settle()

    @property
    def lines(self) -> list[str]:
        """What is on the screen, line by line."""
        strips = self.app.screen._compositor.render_strips(self.app.size)
        return [strip.text for strip in strips]

    @property
    def words(self) -> str:
        """The text without frames and line ends: for what may be wrapped."""
        return " ".join(self.text.replace("│", " ").split())

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines)


@asynccontextmanager
async def console(
    size: tuple[int, int] = (80, 24),
    first: Snapshot | None = None,
    *,
    readonly: bool = False,
    leaving: str = STAYS,
    look: Look = RICH_LOOK,
    **platform: Any,
) -> AsyncIterator[Console]:
    """A console that has heard its first snapshot; without one it is still connecting."""
    memory = MemoryPlatform(**platform)
    now = [1000.0]
    app = ConsoleApp(
        memory,
        memory,
        look=look,
        readonly=readonly,
        leaving=leaving,
        paint_s=0.0,
        silence_s=1e6,
        keys_s=0.05,
        clock=lambda: now[0],
    )
    async with app.run_test(size=size) as pilot:
        driven = Console(app, memory, pilot, now)
        await driven.hear(first if first is not None else snapshot())
        yield driven
