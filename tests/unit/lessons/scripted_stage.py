"""A stage that keeps what it was asked for; cordons and calls come out as they would."""

from __future__ import annotations

from dataclasses import replace

from control_plane.contracts.fleet import Snapshot, WorkerPhase
from lessons.actions import Action, Calls, Cordon, Uncordon
from lessons.model import Sandbox, View
from lessons.observation import CallSeen, Observation
from tests.unit.lessons.seen import observation, worker


class ScriptedStage:
    """One worker, w-1, in this ``phase`` until it is observed. ``ttft_s`` and ``cut`` (tokens that
    never come) decide how calls go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.cordoned = False
        self.ttft_s = 0.06
        self.cut = 0
        self.phase = WorkerPhase.READY
        self._calls: list[CallSeen] = []

    async def start(self, sandbox: Sandbox, seed: int) -> str:
        self.asked.append(f"start {sandbox.engine} {seed}")
        self.cordoned = False
        self._calls = []
        return "simulated nothing"

    async def act(self, action: Action) -> None:
        self.asked.append(action.told())
        if isinstance(action, Calls):
            self._calls += [
                CallSeen(shape.name, True, ttft_s=self.ttft_s, output_tokens=shape.output_tokens - self.cut)
                for shape in action.calls
            ]
        elif isinstance(action, Cordon | Uncordon):
            self.cordoned = isinstance(action, Cordon)

    async def mark(self) -> None:
        self._calls = []

    async def snapshot(self) -> Snapshot:
        return observation(workers=(worker("w-1", cordoned=self.cordoned, phase=self.phase),)).snapshot

    async def observe(self) -> Observation:
        self.phase = WorkerPhase.READY
        return replace(observation(), snapshot=await self.snapshot(), calls=tuple(self._calls))

    async def show(self, view: View, of: str) -> tuple[str, ...]:
        return (f"{view} {of}",)
