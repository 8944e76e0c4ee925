"""The stream against gRPC's own server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import grpc
import pytest

from control_plane.contracts.wire.channel import SERVER_OPTIONS
from control_plane.router.forwarder.grpc_stream import GrpcStream, open_stream

PATH = "/test.Echo/Echo"


@pytest.fixture
async def server() -> AsyncIterator[tuple[grpc.aio.Server, str]]:
    """Sends back every message, until it gets b"end" or b"abort"."""

    async def echo(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for data in messages:
            if data == b"end":
                return
            if data == b"abort":
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "enough")
            yield data

    made = grpc.aio.server(options=SERVER_OPTIONS)
    handler = grpc.stream_stream_rpc_method_handler(echo)
    made.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", {"Echo": handler}),))
    port = made.add_insecure_port("127.0.0.1:0")
    await made.start()
    yield made, f"127.0.0.1:{port}"
    await made.stop(0)


class Talk:
    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.ended = asyncio.get_running_loop().create_future()
        self.enough = asyncio.Event()
        self.wanted = 0

    def on_message(self, data: bytes) -> None:
        self.heard.append(data)
        if len(self.heard) >= self.wanted:
            self.enough.set()

    async def open(self, address: str, path: str = PATH) -> GrpcStream:
        return await open_stream(address, path, self.on_message, self.ended.set_result, 5.0)

    async def hears(self, count: int) -> list[bytes]:
        self.wanted = count
        if len(self.heard) < count:
            self.enough.clear()
            async with asyncio.timeout(30):
                await self.enough.wait()
        return self.heard

    async def end(self) -> str:
        async with asyncio.timeout(30):
            return str(await self.ended)


async def test_messages_of_every_size_come_back_in_order(server: tuple[grpc.aio.Server, str]) -> None:
    rng, talk = Random(3), Talk()
    stream = await talk.open(server[1])
    sent = [rng.randbytes(rng.choice([0, 1, 100, 70_000, 3_000_000])) for _ in range(40)]
    for data in sent:
        stream.send(data)
    assert await talk.hears(len(sent)) == sent
    stream.close()


@pytest.mark.parametrize("word", [b"end", b"abort"])
async def test_the_servers_end_is_told(server: tuple[grpc.aio.Server, str], word: bytes) -> None:
    talk = Talk()
    stream = await talk.open(server[1])
    stream.send(b"one")
    await talk.hears(1)
    stream.send(word)
    assert "ended" in await talk.end()


async def test_a_method_that_is_not_there_is_an_end(server: tuple[grpc.aio.Server, str]) -> None:
    talk = Talk()
    await talk.open(server[1], "/test.Echo/Nothing")
    assert "ended" in await talk.end()


async def test_a_server_that_stops_at_once_is_an_end(server: tuple[grpc.aio.Server, str]) -> None:
    talk = Talk()
    stream = await talk.open(server[1])
    stream.send(b"one")
    await talk.hears(1)
    await server[0].stop(0)
    assert await talk.end()


async def test_a_graceful_stop_lets_the_stream_go_on(server: tuple[grpc.aio.Server, str]) -> None:
    talk = Talk()
    stream = await talk.open(server[1])
    stream.send(b"one")
    await talk.hears(1)
    stopping = asyncio.create_task(server[0].stop(20))
    await asyncio.sleep(0.1)
    stream.send(b"two")
    assert await talk.hears(2) == [b"one", b"two"]
    stream.send(b"end")
    await talk.end()
    await stopping


async def test_closing_cancels_the_call_at_the_server() -> None:
    cancelled = asyncio.Event()

    async def wait(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        context.add_done_callback(lambda _: cancelled.set())
        async for data in messages:
            yield data

    made = grpc.aio.server(options=SERVER_OPTIONS)
    handler = grpc.stream_stream_rpc_method_handler(wait)
    made.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", {"Echo": handler}),))
    port = made.add_insecure_port("127.0.0.1:0")
    await made.start()
    talk = Talk()
    stream = await talk.open(f"127.0.0.1:{port}")
    stream.send(b"one")
    await talk.hears(1)
    stream.close()
    async with asyncio.timeout(20):
        await cancelled.wait()
    await made.stop(0)


async def test_nobody_there_is_an_os_error() -> None:
    probe = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = probe.sockets[0].getsockname()[1]
    probe.close()
    await probe.wait_closed()
    with pytest.raises(ConnectionRefusedError):
        await Talk().open(f"127.0.0.1:{port}")
