"""Work on the side: its errors are told, and what must go on is begun again."""

from __future__ import annotations

import asyncio
import logging

import pytest

from control_plane import tasks as module
from control_plane.tasks import Tasks


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
