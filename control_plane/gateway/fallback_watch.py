"""Looking again whether the model that a call waits for still has a healthy worker, and what the policy has instead."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from control_plane.contracts.call import Router
from control_plane.contracts.model_choice import ModelAsk, ModelChoice

LOOK_AGAIN_S: Final = 1.0


class FallbackWatch:
    """``begun`` tells whether the call's answer has: then the watch is over. ``waits``: whether no worker has the call
    now; one that has it may be lost. ``then`` hears once of another model to take. ``stop`` may be called at any
    time. ``since``: from when on (monotonic) no worker has had the call, as far as was looked; 0 while one has.
    ``returned``: one had it, as far as was looked."""

    __slots__ = ("_ask", "_begun", "_choice", "_over", "_router", "_then", "_timer", "_waits", "returned", "since")

    def __init__(
        self,
        router: Router,
        ask: ModelAsk,
        choice: ModelChoice,
        begun: Callable[[], bool],
        waits: Callable[[], bool],
        then: Callable[[ModelChoice], None],
    ) -> None:
        self._router = router
        self._ask = ask
        self._choice = choice
        self._begun = begun
        self._waits = waits
        self._then = then
        self._over = False
        self.returned = not waits()
        self.since = 0.0 if self.returned else time.monotonic()
        self._timer = self._later()

    @classmethod
    def of(
        cls,
        router: Router,
        ask: ModelAsk,
        choice: ModelChoice,
        begun: Callable[[], bool],
        waits: Callable[[], bool],
        then: Callable[[ModelChoice], None],
    ) -> FallbackWatch | None:
        """None for a call that is answered already, or for whose model the policy has no other."""
        routes = router.routes()
        if routes is None or begun() or not routes.falls_back(choice):
            return None
        return cls(router, ask, choice, begun, waits, then)

    def stop(self) -> None:
        self._over = True
        self._timer.cancel()

    def _later(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._look)

    def _look(self) -> None:
        if self._waits():
            self.since = self.since or time.monotonic()
            self._router.instead(self._ask, self._choice, self._found)
        else:
            self.since, self.returned = 0.0, True
            self._found(None)

    def _found(self, other: ModelChoice | None) -> None:
        if self._over or self._begun():
            return
        if other is None or not self._waits():
            self._timer = self._later()
        else:
            self._over = True
            self._then(other)
