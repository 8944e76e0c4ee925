"""Work that goes on beside whoever began it: held until it ends, and never lost in silence."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from control_plane.contracts.errors import InferDeckError

AGAIN_S: Final = 1.0
"""Seconds before work that is kept going is begun again."""

log = logging.getLogger(__name__)

_T = TypeVar("_T")


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


class Works:
    """What somebody has begun goes on to its end, also when they are gone: what it raises then is logged with the
    work's name."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def finish(self, work: Coroutine[Any, Any, _T], name: str) -> _T:
        """Its result; raises what it raised. Cancelled, it goes on."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_told_by_nobody)
            raise

    async def end(self, grace_s: float) -> None:
        """Break off what is not over within the grace."""
        tasks = list(self._running)
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _told_by_nobody(task: asyncio.Task[Any]) -> None:
    """Whoever would have told what became of it is gone."""
    error = None if task.cancelled() else task.exception()
    if error is None:
        return
    told = "a work failed when whoever asked for it was gone"
    if isinstance(error, InferDeckError):
        log.warning(told, extra={"task": task.get_name(), "cause": error.message})
    else:
        log.error(told, extra={"task": task.get_name()}, exc_info=error)


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
