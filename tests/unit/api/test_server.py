"""The port of the operators' API, and what is audited when."""

from __future__ import annotations

import asyncio
import socket
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from control_plane.api.server import ApiServer, _Operator
from control_plane.contracts.errors import Conflict
from control_plane.contracts.v1 import operator_pb2 as pb


async def test_a_port_that_cannot_be_had_is_told_with_its_setting() -> None:
    api = ApiServer(MagicMock(), "op-inferdeck-x", MagicMock(), MagicMock())
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(Conflict) as caught:
            api.bind("127.0.0.1", port)
    assert f"api.port: cannot listen on 127.0.0.1:{port}" in caught.value.message
    assert "[api]" in (caught.value.hint or "")
    await api.stop(0.0)


async def test_a_drain_is_audited_when_it_begins() -> None:
    """Its operator may be gone before there is any progress."""
    began = asyncio.Event()

    async def drain(*_: Any, **__: Any) -> Any:
        began.set()
        await asyncio.Event().wait()
        yield

    platform, trail = MagicMock(), AsyncMock()
    platform.operations.drain = drain
    platform.controller.in_flight.return_value = 3
    steps: Any = _Operator(platform, trail, MagicMock()).Drain(pb.DrainWorkerRequest(worker_id="w"), MagicMock())
    watching = asyncio.create_task(anext(steps))
    await asyncio.wait_for(began.wait(), 20)
    watching.cancel()
    trail.left.assert_awaited_once_with("worker.drain", "worker/w", {}, {"draining": True, "in_flight": 3})
