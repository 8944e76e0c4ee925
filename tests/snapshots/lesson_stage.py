"""A lesson's platform in memory: what it is asked for is written down, and things end when a test lets them."""

from __future__ import annotations

import asyncio

from console.readiness import Readiness
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.fleet import Snapshot
from lessons.actions import Action, Cordon
from lessons.model import Sandbox
from tests.unit.lessons.scripted_stage import ScriptedStage

LABEL = "simulated a100-80gb · 2 workers"


class LessonStage(ScriptedStage):
    """``gate`` closed: what is started or done takes until it is opened; ``way_out`` closed: so does closing.
    ``closing`` and ``broken_off``: how often that began, and was cancelled. ``refuses``: no platform comes up;
    ``breaks``: actions fail. ``began``: the platform as a lesson finds it."""

    def __init__(self) -> None:
        super().__init__()
        self.home = "/a/home"
        self.gate = asyncio.Event()
        self.gate.set()
        self.way_out = asyncio.Event()
        self.way_out.set()
        self.closing = 0
        self.broken_off = 0
        self.refuses: InferDeckError | None = None
        self.breaks: InferDeckError | None = None
        self.running = False
        self.began: Snapshot | None = None
        self.closed = 0
        self.readiness: Readiness | None = None

    async def start(self, sandbox: Sandbox, seed: int) -> str:
        await super().start(sandbox, seed)
        await self.gate.wait()
        if self.refuses is not None:
            raise self.refuses
        self.running = True
        return LABEL

    async def act(self, action: Action) -> None:
        await self.gate.wait()
        if self.breaks is not None:
            raise self.breaks
        await super().act(action)

    def cordon(self) -> None:
        """As an operator does it."""
        self.asked.append(Cordon("w-1").told())
        self.cordoned = True

    async def close(self) -> None:
        self.closing += 1
        try:
            await self.way_out.wait()
        except asyncio.CancelledError:
            self.broken_off += 1
            raise
        self.closed += 1
        self.running = False
