"""A lean HTTP client for load: keep-alive connections, one request at a time on each, as little parsed as possible."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from typing import Any, cast

import httptools

from tests.bench.stack import MODEL, Stack

_CONTENT = re.compile(rb'"content":\s*"[^"]')


class Connection(asyncio.Protocol):
    """``send`` returns the status of the answer when it is complete; the other attributes tell about that answer.

    ``first`` and ``last`` are ``time.monotonic()`` of the first content and of the end, ``arrivals`` that of every SSE
    event with content.
    """

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._answer: asyncio.Future[int] | None = None
        self._tail = b""
        self._wanted: tuple[int, asyncio.Future[None]] | None = None
        self.sent = self.first = self.last = 0.0
        self.arrivals: list[float] = []
        self.body = bytearray()
        self.keep_body = False
        self.done = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no asyncio.Transport, though they do all that one does.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def open(self) -> bool:
        return self._transport is not None

    def send(self, raw: bytes) -> asyncio.Future[int]:
        assert self._transport is not None
        self._parser = httptools.HttpResponseParser(self)
        self._answer = asyncio.get_running_loop().create_future()
        self.first, self.arrivals, self._tail, self.done = 0.0, [], b"", False
        self.body.clear()
        self.sent = time.monotonic()
        self._transport.write(raw)
        return self._answer

    async def events(self, count: int) -> None:
        """Return when that many events with content have come."""
        if len(self.arrivals) < count:
            self._wanted = (count, asyncio.get_running_loop().create_future())
            await self._wanted[1]

    def abort(self) -> float:
        """Cut the connection as a client that crashes does; ``time.monotonic()`` of just before."""
        assert self._transport is not None
        now = time.monotonic()
        self._transport.abort()
        return now

    def data_received(self, data: bytes) -> None:
        if self._parser is not None:
            self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        events = len(_CONTENT.findall(body))
        if events:
            now = time.monotonic()
            self.first = self.first or now
            self.arrivals.extend([now] * events)
            if self._wanted is not None and len(self.arrivals) >= self._wanted[0]:
                self._wanted[1].set_result(None)
                self._wanted = None
        self._tail = (self._tail + body)[-32:]
        if self.keep_body:
            self.body += body

    def on_message_complete(self) -> None:
        self.last = time.monotonic()
        self.done = b"[DONE]" in self._tail
        status, keep = self._parser.get_status_code(), self._parser.should_keep_alive()
        self._parser = None
        answer, self._answer = self._answer, None
        if not keep and self._transport is not None:
            self._transport.close()
            self._transport = None
        if answer is not None and not answer.done():
            answer.set_result(status)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(ConnectionError("the connection ended inside an answer"))


async def connect(stack: Stack) -> Connection:
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, stack.host, stack.port, ssl=stack.tls)
    return connection


def chat_request(stack: Stack, text: str, *, stream: bool, max_tokens: int, **fields: Any) -> bytes:
    """A whole request, head and body."""
    body = json.dumps(
        {
            "model": MODEL,
            "messages": [{"role": "user", "content": text}],
            "max_tokens": max_tokens,
            "temperature": 0.0,
            "stream": stream,
            **fields,
        }
    ).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\n"
        f"host: {stack.host}:{stack.port}\r\n"
        f"authorization: Bearer {stack.key}\r\n"
        "content-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def prompt_text(number: int, size: int = 200) -> str:
    """A text of ``size`` bytes that differs from others at its start."""
    filler = "lorem ipsum dolor sit amet consectetur "
    return (f"#{number} topic{number * 7919} " + filler * (size // len(filler) + 1))[:size]
