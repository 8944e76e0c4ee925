"""Waiting for work that goes on whatever becomes of whoever waits for it."""

from __future__ import annotations

import asyncio
from typing import TypeVar

_T = TypeVar("_T")


async def to_the_end(work: asyncio.Task[_T]) -> _T:
    """Its result; raises what it raised.

    Cancelled, one waits on, and is cancelled once the work is over: the work has not heard of it, and what comes after
    never runs beside the work.
    """
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return work.result()
