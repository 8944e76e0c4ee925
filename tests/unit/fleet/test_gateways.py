"""Gateway processes that cannot be made, or cannot be recorded."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from control_plane.contracts.fleet import Event
from control_plane.contracts.worker_spec import start_ticks
from control_plane.fleet import members as module
from control_plane.fleet.changes import Changes
from control_plane.fleet.events import Events
from control_plane.fleet.gateways import Gateways
from control_plane.fleet.launcher.process import Process
from control_plane.fleet.requests import Requests
from control_plane.fleet.routers import Routers
from control_plane.settings import GatewaySettings, Home
from control_plane.store import Database, EventLog


class Stand:
    def __init__(self, folder: Path, database: Database) -> None:
        changes = Changes()
        self.home = Home(folder)
        self.home.create()
        self.events = Events(EventLog(database), changes)
        routers = Routers(Requests(), changes, lambda worker_id: None)
        self.gateways = Gateways(GatewaySettings(port=0), self.home, None, self.events, routers, changes, lambda: None)

    async def failures(self, count: int) -> list[str]:
        """What the first so many failures were told as."""
        async with asyncio.timeout(30):
            return [event.message async for event in self._failed(count)]

    async def _failed(self, count: int) -> AsyncIterator[Event]:
        async with contextlib.aclosing(cast(AsyncGenerator[Event], self.events.follow(0))) as events:
            async for event in events:
                if event.kind == "gateway_failed":
                    yield event
                    count -= 1
                if not count:
                    return


@pytest.fixture
async def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stand]:
    monkeypatch.setattr(module, "backoff_s", lambda failures: failures / 100)
    database = Database.open("", tmp_path / "x.db")
    stand = Stand(tmp_path / "home", database)
    yield stand
    await stand.gateways.stop(0.0, asyncio.Event())
    await stand.events.close()
    database.close()


def ended() -> Process:
    return Process.of_child(subprocess.Popen([sys.executable, "-c", ""], start_new_session=True))


def no_room(*_args: object) -> Process:
    raise OSError(errno.ENOSPC, "No space left on device")


async def test_one_that_cannot_be_started_fails_more_with_each_attempt_and_says_why(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gateway,) = stand.gateways.all()
    gateway.process = ended()
    await gateway.process.wait()
    monkeypatch.setattr(stand.gateways, "_spawn", no_room)
    stand.gateways.start()
    told = await stand.failures(3)
    assert all("cannot be started: [Errno 28] No space left on device; starts again" in message for message in told)
    assert gateway.process is None
    assert gateway.failures >= 3


async def test_one_that_cannot_be_recorded_is_ended(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def refuse(path: Path, pid: int, url: str) -> None:
        made.append(pid)
        no_room()

    monkeypatch.setattr(module, "write_record", refuse)
    stand.gateways.start()
    (told,) = await stand.failures(1)
    assert "cannot be started: [Errno 28]" in told
    assert start_ticks(made[0]) == 0
