"""What a player asks of the platform; who carries it out is none of the lessons' business."""

from __future__ import annotations

from typing import Protocol

from control_plane.contracts.fleet import Snapshot
from lessons.actions import Action
from lessons.model import Sandbox, View
from lessons.observation import Observation


class Stage(Protocol):
    """One sandbox at a time. What cannot be done raises an ``InferDeckError`` that says so."""

    async def start(self, sandbox: Sandbox, seed: int) -> str:
        """A platform as the sandbox says, with nothing in it: a new one, or the running one put back where it is
        equal. Says what it runs on, for people: "simulated H100, 3 workers"."""
        ...

    async def act(self, action: Action) -> None:
        """Return when it is done; see each action for what that is."""
        ...

    async def snapshot(self) -> Snapshot:
        """The platform as it is now."""
        ...

    async def mark(self) -> None:
        """From now on is what the next observations tell of."""
        ...

    async def observe(self) -> Observation:
        """``measured`` is left to the player."""
        ...

    async def show(self, view: View, of: str) -> tuple[str, ...]:
        """A view of the sandbox as it is now, as lines of text."""
        ...
