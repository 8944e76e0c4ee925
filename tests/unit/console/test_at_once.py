from __future__ import annotations

import asyncio

import pytest

from console.at_once import at_once


async def test_results_are_in_order_and_no_more_than_so_many_run() -> None:
    running = most = 0

    async def double(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002 * (10 - number))
        running -= 1
        return 2 * number

    assert await at_once(double, range(10), 4) == [2 * number for number in range(10)]
    assert most == 4
    assert await at_once(double, [], 4) == []


async def test_the_first_error_ends_the_others() -> None:
    ended: list[int] = []

    async def fail(number: int) -> None:
        try:
            await asyncio.sleep(0 if number == 1 else 60)
        finally:
            ended.append(number)
        raise ValueError(number)

    with pytest.raises(ValueError, match="1"):
        await asyncio.wait_for(at_once(fail, range(4)), 5)
    assert sorted(ended) == [0, 1, 2, 3]
