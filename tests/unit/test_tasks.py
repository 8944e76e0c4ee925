"""Work on the side: its errors are told, and what must go on is begun again."""

from __future__ import annotations

import asyncio
import logging

import pytest

from control_plane import tasks as module
from control_plane.contracts.errors import Conflict
from control_plane.tasks import Tasks, Works


async def test_what_fails_is_told_by_name(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("boom")

    with caplog.at_level(logging.ERROR):
        await Tasks().spawn(fail(), "the thing")
    (record,) = caplog.records
    assert record.__dict__["task"] == "the thing"
    assert record.exc_info is not None
    assert "boom" in str(record.exc_info[1])


async def test_what_must_go_on_is_begun_again_until_it_returns(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AGAIN_S", 0.0)
    attempts = 0

    async def third_time_lucky() -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise ValueError("boom")

    async with asyncio.timeout(30):
        await Tasks().keep(third_time_lucky, "the thing")
    assert attempts == 3
    assert len(caplog.records) == 2


async def test_cancelling_ends_them_all() -> None:
    tasks = Tasks()
    never = asyncio.Event()

    async def wait() -> None:
        await never.wait()

    made = [tasks.spawn(wait(), "once"), tasks.keep(wait, "kept")]
    await asyncio.sleep(0)
    await tasks.cancel()
    assert all(task.cancelled() for task in made)


async def left(works: Works, error: Exception | None) -> None:
    """Work that ends so, when whoever asked for it is gone."""
    began, go_on = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        began.set()
        await go_on.wait()
        if error is not None:
            raise error

    asking = asyncio.create_task(works.finish(work(), "the thing"))
    await began.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    go_on.set()
    await works.end(20.0)


async def test_what_fails_when_nobody_is_there_to_hear_it_is_told_by_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        await left(Works(), ValueError("boom"))
        await left(Works(), Conflict("the pool is full"))
        await left(Works(), None)
    unexpected, refused = caplog.records
    assert (unexpected.levelname, unexpected.__dict__["task"]) == ("ERROR", "the thing")
    assert unexpected.exc_info is not None
    assert "boom" in str(unexpected.exc_info[1])
    assert (refused.levelname, refused.__dict__["task"]) == ("WARNING", "the thing")
    assert refused.__dict__["cause"] == "the pool is full"
    assert refused.exc_info is None


async def test_whoever_is_there_hears_it_and_the_log_does_not(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("boom")

    async def two() -> int:
        return 2

    works = Works()
    with caplog.at_level(logging.INFO):
        assert await works.finish(two(), "the thing") == 2
        with pytest.raises(ValueError, match="boom"):
            await works.finish(fail(), "the thing")
        await works.end(20.0)
    assert not caplog.records


async def test_what_is_broken_off_at_the_end_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    works = Works()
    asking = asyncio.create_task(works.finish(asyncio.Event().wait(), "the thing"))
    await asyncio.sleep(0)
    with caplog.at_level(logging.INFO):
        await works.end(0.0)
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert not caplog.records
