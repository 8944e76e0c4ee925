"""Looking again whether the model that a call waits for still has a healthy worker, and what the policy has instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from control_plane.contracts.call import Router
from control_plane.contracts.model_choice import ModelAsk, ModelChoice

LOOK_AGAIN_S: Final = 1.0


class FallbackWatch:
    """``waits`` tells whether the call still does: when it does not, the watch is over. ``then`` hears once of another
    model to take. ``stop`` may be called at any time."""

    __slots__ = ("_ask", "_choice", "_over", "_router", "_then", "_timer", "_waits")

    def __init__(
        self,
        router: Router,
        ask: ModelAsk,
        choice: ModelChoice,
        waits: Callable[[], bool],
        then: Callable[[ModelChoice], None],
    ) -> None:
        self._router = router
        self._ask = ask
        self._choice = choice
        self._waits = waits
        self._then = then
        self._over = False
        self._timer = self._later()

    @classmethod
    def of(
        cls,
        router: Router,
        ask: ModelAsk,
        choice: ModelChoice,
        waits: Callable[[], bool],
        then: Callable[[ModelChoice], None],
    ) -> FallbackWatch | None:
        """None for a call that does not wait, or for whose model the policy has no other."""
        routes = router.routes()
        if routes is None or not waits() or not routes.falls_back(choice):
            return None
        return cls(router, ask, choice, waits, then)

    def stop(self) -> None:
        self._over = True
        self._timer.cancel()

    def _later(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._look)

    def _look(self) -> None:
        if self._waits():
            self._router.instead(self._ask, self._choice, self._found)

    def _found(self, other: ModelChoice | None) -> None:
        if self._over or not self._waits():
            return
        if other is None:
            self._timer = self._later()
        else:
            self._over = True
            self._then(other)
