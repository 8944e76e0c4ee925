"""Clients that read slowly, or send what nobody wants."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.integration.gateway.rig import KEY, RawClient, Rig, chat_body, gateway, request, say
from tests.unit.gateway.fakes import until

LARGE = "x" * 20_000_000


async def large_answer(rig: Rig, **fields: str) -> RawClient:
    """A client with a response on its way that is more than the kernel takes, and that it does not read yet."""
    rig.router.play = None
    client = await rig.connect()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.send(request(body=chat_body(), **fields))
    say(await rig.call(), [LARGE])
    return client


@pytest.mark.parametrize("fields", [{"connection": "close"}, {"version": "1.0"}], ids=["close", "1.0"])
async def test_a_response_that_ends_the_connection_waits_for_its_reader(fields: dict[str, str]) -> None:
    async with gateway(linger_s=0.1) as rig:
        client = await large_answer(rig, **fields)
        await asyncio.sleep(1.5)
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        answer = await client.answer()
        assert answer.json["choices"][0]["message"]["content"] == LARGE
        assert await client.ended() == b""


async def test_a_gateway_that_stops_lets_its_readers_finish() -> None:
    async with gateway(linger_s=0.1) as rig:
        client = await large_answer(rig)
        rig.stop.set()
        await asyncio.sleep(1.5)
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert (await client.answer()).json["choices"][0]["message"]["content"] == LARGE


async def test_a_slow_reader_gets_everything() -> None:
    async with gateway(stall_s=1.0) as rig:
        rig.router.play = None
        loop = asyncio.get_running_loop()
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", rig.gateway.port))
            await loop.sock_sendall(client, request(body=chat_body(), connection="close"))
            say(await rig.call(), [LARGE])
            size, slow_until = 0, loop.time() + 3.0
            async with asyncio.timeout(60):
                while piece := await loop.sock_recv(client, 65536):
                    size += len(piece)
                    if loop.time() < slow_until:
                        await asyncio.sleep(0.02)
        assert size > len(LARGE)


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics", "/v1/models", "/v1/models/m", "/nowhere"])
async def test_a_body_where_none_belongs_takes_no_memory(rig: Rig, path: str) -> None:
    client = await rig.connect()
    client.send(request(path, b"x" * 900_000, method="GET", content_length="1000000"))
    client.send(b"x" * 99_999)
    other = await rig.connect()
    other.send(request("/health", method="GET"))
    assert (await other.answer()).status == 200
    assert rig.gateway.held == 0
    client.send(b"x")
    assert (await client.answer()).status == (404 if path == "/nowhere" else 200)


@pytest.mark.parametrize("path", ["/health", "/v1/models"])
async def test_bodies_posted_to_where_none_belong_are_refused_at_once(rig: Rig, path: str) -> None:
    client = await rig.connect()
    client.send(request(path, b"x" * 100_000, content_length="2000000"))
    assert (await client.answer()).status == 405
    assert rig.gateway.held == 0


async def test_trailers_without_end_end_the_connection(rig: Rig) -> None:
    client = await rig.connect()
    client.send(f"GET /health HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {KEY}\r\n".encode())
    client.send(b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: ")
    for _ in range(4):
        client.send(b"a" * 65536)
    assert (await client.answer()).status == 431
    client.close()
    await until(lambda: rig.gateway.stats().in_flight == 0)
