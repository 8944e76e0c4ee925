"""A stream that is refused while its client writes hears the refusal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest

from control_plane.contracts.errors import DropReason
from control_plane.contracts.identity import Peer
from control_plane.contracts.wire import refusing
from control_plane.contracts.wire.secure import PeerGate
from control_plane.contracts.wire.status import error_from

METHOD = "/test.Service/Talk"
TIMES = 5


async def talk(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    async for request in requests:
        yield request


@pytest.fixture
async def call() -> AsyncIterator[Any]:
    """A method for which nobody has the certificate, over a connection without any."""
    server = grpc.aio.server(interceptors=(PeerGate({"/": frozenset({Peer.GATEWAY})}),))
    handlers = {"Talk": grpc.stream_stream_rpc_method_handler(talk)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel.stream_stream(METHOD)
    await server.stop(0)


async def nothing() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


async def a_few() -> AsyncIterator[bytes]:
    for _ in range(5):
        yield b"x"


async def many_and_then_none() -> AsyncIterator[bytes]:
    for _ in range(20):
        yield b"x" * 1000
    await asyncio.Event().wait()


@pytest.mark.parametrize("says", [nothing, a_few, many_and_then_none])
async def test_the_refusal_is_heard(
    call: Any, says: Callable[[], AsyncIterator[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow the machine is, what takes a while is not silence.
    monkeypatch.setattr(refusing, "QUIET_TURNS", 30)
    monkeypatch.setattr(refusing, "HEARD_OUT_S", 60.0)
    for _ in range(TIMES):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(says()).read()
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert error_from(refused.value).reason is DropReason.WRONG_PEER


async def test_who_never_stops_writing_is_not_heard_out_for_ever(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hear what its own library makes of a message that cannot be sent."""
    monkeypatch.setattr(refusing, "HEARD_OUT_S", 0.01)

    async def without_end() -> AsyncIterator[bytes]:
        while True:
            yield b"x"

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call(without_end()).read()
    assert refused.value.code() in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INTERNAL)
