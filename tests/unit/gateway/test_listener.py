from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any, cast

import pytest

from control_plane.gateway.http import listener as listener_module
from control_plane.gateway.http.host import App, Guest
from control_plane.gateway.http.limits import ConnectionLimits
from control_plane.gateway.http.listener import Listener


class Client:
    """Takes the place of a connection."""

    def __init__(self, error: Exception | None = None) -> None:
        self.receive_deadline = self.output_due = 0.0
        self.error = error
        self.aborted = self.forsaken = False
        self.expirations = 0
        self.expired_again = asyncio.Event()

    def expired(self, now: float) -> None:
        self.expirations += 1
        if self.expirations > 1:
            self.expired_again.set()
        if self.error is not None:
            raise self.error

    def abort(self) -> None:
        self.aborted = True


def listener_for(*clients: Client, connections: int = 100) -> Listener:
    listener = Listener(cast(App, None), cast(socket.socket, None), ConnectionLimits(connections=connections))
    for client in clients:
        listener.opened(cast(Guest, client))
    return listener


async def test_a_connection_that_fails_its_deadline_stops_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "_SWEEP_S", 0.01)
    bad, good = Client(RuntimeError("broken")), Client()
    listener = listener_for(bad, good)
    listener._sweep()
    async with asyncio.timeout(10):
        await good.expired_again.wait()
    assert bad.aborted
    assert not good.aborted
    assert listener._timer is not None
    listener._timer.cancel()


async def test_a_sweep_that_fails_as_a_whole_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> str:
        raise RuntimeError("no date")

    listener = listener_for()
    monkeypatch.setattr(listener_module, "formatdate", fail)
    with pytest.raises(RuntimeError):
        listener._sweep()
    assert listener._timer is not None
    listener._timer.cancel()


async def test_dropped_connections_are_counted_and_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    first, *others = clients = [Client() for _ in range(4)]
    with caplog.at_level(logging.WARNING):
        listener = listener_for(*clients, connections=1)
    assert not first.aborted
    assert all(client.aborted for client in others)
    assert listener.dropped == 3
    (record,) = [record for record in caplog.records if record.name == listener_module.__name__]
    assert record.levelno == logging.WARNING
