"""The sleep of an engine without a model: there is no memory to give back, so it only takes the time."""

from __future__ import annotations

import asyncio

from control_plane.contracts.errors import Conflict, DropReason, from_reason
from control_plane.contracts.sleep import SLEEP_LEVELS


class Nap:
    """``level`` is 0 while the engine is awake. ``down_s`` is how long weights take to the host's memory, ``up_s`` how
    long they take from there or from where they are fetched anew; ``problem`` is why it cannot sleep, if it can't."""

    def __init__(self, down_s: float = 0.0, up_s: float = 0.0, problem: str = "") -> None:
        self.level = 0
        self.problem = problem
        self._down_s = down_s
        self._up_s = up_s

    def begin(self, level: int, open_calls: int) -> None:
        """Raises Conflict where that can't be."""
        if self.problem:
            raise Conflict(self.problem)
        if level not in SLEEP_LEVELS:
            raise Conflict(f"there is no level {level} of sleep", param="level")
        if self.level:
            raise Conflict(f"the engine sleeps already, at level {self.level}")
        if open_calls:
            raise Conflict(f"the engine has {open_calls} open calls")
        self.level = level

    async def fall(self) -> None:
        """Until it sleeps, once it has begun. To discard weights takes no time."""
        await asyncio.sleep(self._down_s if self.level == 1 else 0.0)

    async def wake(self) -> None:
        """Until it is awake. Raises Conflict where it is."""
        if not self.level:
            raise Conflict("the engine does not sleep")
        await asyncio.sleep(self._up_s)
        self.level = 0

    def refuse(self) -> None:
        """Raises Unavailable for a call that comes meanwhile."""
        if self.level:
            raise from_reason(DropReason.DRAINING, "the engine sleeps")
