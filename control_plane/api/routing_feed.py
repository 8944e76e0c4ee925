"""How routers are to choose, as the policy in force says it: for all that have joined."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from control_plane.contracts.routing import Routing
from control_plane.store import Policies

READ_EVERY_S = 1.0
"""Another control plane may share the store, and change the policy there."""

log = logging.getLogger(__name__)


class RoutingFeed:
    """``run`` keeps ``current`` up to date; while the store does not answer, the last word holds. ``told`` hears every
    new word."""

    def __init__(self, policies: Policies, told: Callable[[Routing], None] = lambda routing: None) -> None:
        self._policies = policies
        self._told = told
        self.current = Routing()
        self.revision = 0
        self._again = asyncio.Event()
        self._changed = asyncio.Event()

    def policy_changed(self) -> None:
        self._again.set()

    async def run(self) -> None:
        failing = False
        while True:
            self._again.clear()
            try:
                self._take((await asyncio.to_thread(self._policies.get)).routing)
                failing = False
            except Exception as error:
                if not failing:
                    log.error("the policy could not be read: %s", type(error).__name__)
                failing = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(READ_EVERY_S):
                    await self._again.wait()

    async def after(self, revision: int) -> None:
        """Wait until there is a newer word than that."""
        while self.revision <= revision:
            await self._changed.wait()

    def _take(self, routing: Routing) -> None:
        if self.revision and routing == self.current:
            return
        self.current = routing
        self._told(routing)
        self.revision += 1
        self._changed.set()
        self._changed = asyncio.Event()
