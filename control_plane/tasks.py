"""Work that goes on beside whoever began it: held until it ends, and never lost in silence."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

AGAIN_S: Final = 1.0
"""Seconds before work that is kept going is begun again."""

log = logging.getLogger(__name__)


class Tasks:
    """Tasks of one owner. An exception that nobody expected is logged with the task's name."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Do something once, beside what goes on here."""
        task = asyncio.get_running_loop().create_task(_told(work, name), name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def keep(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[None]:
        """Do something until it returns: where it raises instead, it is begun again after ``AGAIN_S``."""
        return self.spawn(_again(work, name), name)

    async def cancel(self) -> None:
        """End them all, and wait until they have."""
        running = tuple(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _told(work: Coroutine[Any, Any, None], name: str) -> None:
    try:
        await work
    except Exception:
        log.exception("a task failed", extra={"task": name})


async def _again(work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    while True:
        try:
            return await work()
        except Exception:
            log.exception("a task failed and is begun again", extra={"task": name})
        await asyncio.sleep(AGAIN_S)
