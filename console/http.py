"""One HTTP/1.1 connection that says when each piece of an answer came.

Raw asyncio and httptools, because a traffic generator must cost less than what it measures: a streamed chunk costs
about a fifth of what httpx spends on it (measured with 32 streams), and its time is taken when the socket is read,
before any parsing.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, cast
from urllib.parse import urlsplit

import httptools

from console.home import Unreachable
from console.trust import Trust
from control_plane.contracts.errors import InvalidRequest

CONNECT_TIMEOUT_S = 5.0
NO_HEADERS: Mapping[str, str] = MappingProxyType({})

_SYSTEM = Trust()


class Broken(Exception):
    """The connection ended, or what came was not HTTP, before the answer was complete."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an OpenAI API is: ``http://host:port/v1``."""

    scheme: str
    host: str
    port: int
    path: str
    trust: Trust = _SYSTEM

    @classmethod
    def parse(cls, url: str, trust: Trust = _SYSTEM) -> Endpoint:
        """Raises InvalidRequest for what is no http(s) address; a missing path means ``/v1``."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise InvalidRequest(f"{url!r} is not an address: {error}", param="url") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidRequest(f"{url!r} is not an address like http://127.0.0.1:8080/v1", param="url")
        return cls(
            parts.scheme,
            parts.hostname,
            port or (443 if parts.scheme == "https" else 80),
            parts.path.rstrip("/") or "/v1",
            trust,
        )

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"

    def request(
        self,
        method: str,
        path: str,
        key: str = "",
        body: Mapping[str, object] | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> bytes:
        """A whole request, ready to be written. Raises InvalidRequest for a header that cannot be sent."""
        payload = b"" if body is None else json.dumps(body).encode()
        host = f"[{self.host}]" if ":" in self.host else self.host
        lines = [f"{method} {self.path}{path} HTTP/1.1", f"host: {host}:{self.port}", "user-agent: inferdeck"]
        if key:
            lines.append(f"authorization: Bearer {key}")
        for name, value in headers.items():
            if not value.isprintable():
                raise InvalidRequest(f"{name}: {value!r} cannot be sent", param=name)
            lines.append(f"{name}: {value}")
        if body is not None:
            lines += ["content-type: application/json", f"content-length: {len(payload)}"]
        return "\r\n".join([*lines, "", ""]).encode() + payload


class Listener(Protocol):
    """Who hears an answer. ``at`` is ``time.monotonic()`` when the bytes were read."""

    def head(self, status: int, headers: dict[str, str], at: float) -> None: ...

    def body(self, data: bytes, at: float) -> None: ...


class Connection(asyncio.Protocol):
    """Keep-alive; one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._listener: Listener | None = None
        self._ended: asyncio.Future[None] | None = None
        self._headers: dict[str, str] = {}
        self._now = 0.0
        self.reusable = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def ask(self, request: bytes, listener: Listener) -> None:
        """Send the request and return when its answer is complete. Raises Broken when it never will be."""
        if self._transport is None or self._transport.is_closing():
            raise Broken("the connection was closed")
        self._listener = listener
        self._headers = {}
        self._parser = httptools.HttpResponseParser(self)
        self._ended = asyncio.get_running_loop().create_future()
        self.reusable = False
        self._transport.write(request)
        try:
            await self._ended
        finally:
            self._listener = self._parser = self._ended = None
            if not self.reusable:
                self.close()

    def close(self) -> None:
        """Drop the connection at once; for the server that is a client that left."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            self.close()  # nobody asked
            return
        self._now = time.monotonic()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(Broken(f"not HTTP: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._fail(Broken("the connection was closed before the answer was complete"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._listener is not None and self._parser is not None:
            self._listener.head(self._parser.get_status_code(), self._headers, self._now)

    def on_body(self, data: bytes) -> None:
        if self._listener is not None:
            self._listener.body(data, self._now)

    def on_message_complete(self) -> None:
        if self._parser is not None:
            self.reusable = self._parser.should_keep_alive()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _fail(self, error: Broken) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(error)


class Connections:
    """Connections to one endpoint, used again while the server keeps them open."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._idle: list[Connection] = []
        self._tls = endpoint.trust.context() if endpoint.scheme == "https" else None

    async def ask(self, request: bytes, listener: Listener) -> None:
        """One request on a connection of its own while it lasts. Raises Unreachable or Broken. Cancelling drops it."""
        connection = self._waiting() or await self._connect()
        await connection.ask(request, listener)
        if connection.reusable:
            self._idle.append(connection)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _waiting(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.open:
                return connection
        return None

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        at = self.endpoint
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, connection = await loop.create_connection(Connection, at.host, at.port, ssl=self._tls)
        except TimeoutError:
            raise Unreachable(f"cannot reach {at.url}: no answer in {CONNECT_TIMEOUT_S:g} s") from None
        except ssl.SSLError as error:
            raise _no_tls(at, error) from None
        except OSError as error:
            why = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else error.strerror or str(error)
            raise Unreachable(f"cannot reach {at.url}: {why}") from None
        return connection


def _no_tls(at: Endpoint, error: ssl.SSLError) -> Unreachable:
    hint = "--ca FILE names whom to trust" if isinstance(error, ssl.SSLCertVerificationError) else ""
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return Unreachable(
            f"no TLS with {at.url}: it speaks plain HTTP", hint=f"--url http{at.url.removeprefix('https')}"
        )
    return Unreachable(f"no TLS with {at.url}: {_why(error)}", hint=hint)


def _why(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason or str(error)).lower().replace("_", " ")
