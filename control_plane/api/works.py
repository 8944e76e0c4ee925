"""What operators have begun goes on to its end, and into the audit, also when they are gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class Works:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def finish(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Its result. Cancelled, it goes on."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    async def end(self, grace_s: float) -> None:
        """Break off what is not over within the grace."""
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        with contextlib.suppress(asyncio.CancelledError):
            task.exception()  # whoever asked has it, or is gone
