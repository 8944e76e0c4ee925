"""Telling many watchers that something changed, without keeping a backlog for any of them."""

from __future__ import annotations

import asyncio


class Changes:
    """A revision that grows with every change. ``structure`` grows only with changes that routers must hear of at
    once: which workers there are, and whether they may be picked; not with every load sample."""

    def __init__(self) -> None:
        self.revision = 1
        self.structure = 1
        self._any: asyncio.Event = asyncio.Event()
        self._structural: asyncio.Event = asyncio.Event()

    def bump(self, *, structural: bool = False) -> None:
        self.revision += 1
        self._any.set()
        self._any = asyncio.Event()
        if structural:
            self.structure += 1
            self._structural.set()
            self._structural = asyncio.Event()

    async def after(self, revision: int, timeout_s: float, *, structural: bool = False) -> bool:
        """Wait until the revision is beyond the given one; False if that took longer than the timeout, in seconds."""
        try:
            async with asyncio.timeout(max(timeout_s, 0.0)):
                while (self.structure if structural else self.revision) <= revision:
                    await (self._structural if structural else self._any).wait()
        except TimeoutError:
            return False
        return True
