"""Cancelling whoever waits: the work goes on, and nothing after it comes before its end."""

from __future__ import annotations

import asyncio

import pytest

from console.to_the_end import to_the_end


async def test_its_result_or_its_error() -> None:
    async def two() -> int:
        return 2

    async def fail() -> int:
        raise ValueError("boom")

    assert await to_the_end(asyncio.create_task(two())) == 2
    with pytest.raises(ValueError, match="boom"):
        await to_the_end(asyncio.create_task(fail()))


async def test_work_that_was_cancelled_is_told_so() -> None:
    work = asyncio.create_task(asyncio.Event().wait())
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await to_the_end(work)


async def test_cancelled_twice_it_waits_on_and_is_cancelled_then() -> None:
    go_on = asyncio.Event()
    work = asyncio.create_task(go_on.wait())
    waiting = asyncio.create_task(to_the_end(work))
    for _ in range(2):
        await asyncio.sleep(0)
        waiting.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert work.result()
