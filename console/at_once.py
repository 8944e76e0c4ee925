"""The same thing done to many, several at once: what is asked of a control plane waits mostly for others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

Each = TypeVar("Each")
Result = TypeVar("Result")

AT_ONCE: Final = 16


async def at_once(do: Callable[[Each], Awaitable[Result]], those: Iterable[Each], most: int = AT_ONCE) -> list[Result]:
    """The results in the order of ``those``. The first error ends the others, and is raised."""
    turns = asyncio.Semaphore(most)

    async def one(each: Each) -> Result:
        async with turns:
            return await do(each)

    tasks = [asyncio.ensure_future(one(each)) for each in those]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
