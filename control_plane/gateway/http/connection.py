"""One client connection: bytes to requests, and what a client may not do.

httptools (llhttp) parses in its strict mode. On top of it: a bounded head (431), an absolute deadline for receiving
(408), a bounded body, exactly one way to say how long a body is (400), and no work for a client that has left: reading
never stops while a response is made, so a disconnect is seen at once, for plain calls as for streams.
"""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections import deque
from typing import TYPE_CHECKING, cast

import httptools

from control_plane.contracts.errors import (
    DropReason,
    HeadersTooLarge,
    InferDeckError,
    InvalidRequest,
    RequestTimeout,
    TooLarge,
    Unavailable,
)
from control_plane.gateway.http.exchange import Exchange

if TYPE_CHECKING:
    from control_plane.gateway.http.listener import Listener

_READ_FIELDS = frozenset(
    (
        b"authorization",
        b"connection",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"expect",
        b"host",
        b"transfer-encoding",
        b"x-request-id",
    )
)
_NEVER = math.inf


class Connection(asyncio.Protocol):
    """A connection answers its requests in their order, one at a time; pipelined ones wait."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._app = listener.app
        self._limits = listener.limits
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._current: Exchange | None = None
        self._incoming: Exchange | None = None
        self._latest: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._refusal: InferDeckError | None = None
        self._in_head = False
        self._raw_head = 0
        self._head_size = 0
        self._target = b""
        self._fields: dict[bytes, bytes] = {}
        self._field_count = 0
        self._arrival_unix = 0.0
        self._arrival_mono = 0.0
        self._deaf = False
        self._discarded = 0
        self.receive_deadline = _NEVER
        self.write_deadline = _NEVER

    # the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.receive_deadline = time.monotonic() + self._limits.head_s
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(self._limits.stall_s * 1000))
        self._listener.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.closed(self)
        self._deaf = True
        self.receive_deadline = self.write_deadline = _NEVER
        exchanges = [self._current, *self._waiting, self._incoming]
        self._current = self._incoming = None
        self._waiting.clear()
        for exchange in exchanges:
            if exchange is not None and not exchange.ended:
                exchange.gone()
                self._app.ended(exchange)

    def eof_received(self) -> bool:
        """A client that will send no more is taken to have left: the transport closes, and the call is cancelled."""
        return False

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            self._discarded += len(data)
            if self._discarded > self._limits.linger_bytes:
                self.abort()
            return
        was_in_head = self._in_head
        self._feed(data)
        if self._in_head:
            self._check_head(len(data) if was_in_head else 0)
        if self._refusal is not None:
            self._refuse()
        elif self._current is not None and self._current.fresh:
            self._current.fresh = False
            self._app.advance(self._current)

    def pause_writing(self) -> None:
        self.write_deadline = time.monotonic() + self._limits.stall_s
        if self._current is not None:
            self._current.paused = True

    def resume_writing(self) -> None:
        self.write_deadline = _NEVER
        exchange = self._current
        if exchange is not None and exchange.paused:
            exchange.paused = False
            if exchange.on_drained is not None:
                exchange.on_drained()

    # the parser's side

    def on_message_begin(self) -> None:
        self._in_head = True
        self._raw_head = self._head_size = self._field_count = 0
        self._target = b""
        self._fields = {}
        self._arrival_unix = time.time()
        self._arrival_mono = time.monotonic()
        self.receive_deadline = self._arrival_mono + self._limits.head_s

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._field_count += 1
        self._head_size += len(name) + len(value)
        name = name.lower()
        if name in _READ_FIELDS:
            fields = self._fields
            if name in fields:
                # No field that matters here may come twice, save the one that HTTP lets be a list.
                if name != b"connection":
                    self._refusal = self._refusal or InvalidRequest(f"The {name.decode()} header is sent twice.")
                value = fields[name] + b"," + value
            fields[name] = value

    def on_headers_complete(self) -> None:
        self._in_head = False
        fields = self._fields
        # What comes after the body (trailers) is nobody's.
        self._fields = {}
        limits = self._limits
        if self._field_count > limits.fields or self._head_size + len(self._target) > limits.head_bytes:
            self._refusal = _head_too_large()
        if self._refusal is not None:
            return
        exchange = Exchange(
            self, self._parser.get_method(), self._target, fields, self._arrival_unix, self._arrival_mono
        )
        version = self._parser.get_http_version()
        exchange.chunked = version == "1.1"
        exchange.keep_alive = self._parser.should_keep_alive()
        exchange.paused = self.write_deadline != _NEVER
        if version == "1.1":
            if b"host" not in fields:
                self._refusal = InvalidRequest("The Host header is missing.")
        elif version != "1.0":
            self._refusal = InvalidRequest("Only HTTP/1.1 and HTTP/1.0 are spoken here.")
        if (coding := fields.get(b"transfer-encoding")) is not None and (
            coding.lower() != b"chunked" or version == "1.0"
        ):
            self._refusal = InvalidRequest("The only Transfer-Encoding that is read is chunked, over HTTP/1.1.")
        if (length := fields.get(b"content-length")) is not None:
            exchange.content_length = int(length)
            if exchange.content_length > limits.body_bytes:
                exchange.unread = self._too_large()
        self._incoming = self._latest = exchange
        self.receive_deadline = self._arrival_mono + limits.receive_s
        if self._current is None:
            self._current = exchange
        elif len(self._waiting) < limits.pipelined:
            self._waiting.append(exchange)
        else:
            self._refusal = InvalidRequest("Too many requests are pipelined.")

    def on_body(self, body: bytes) -> None:
        exchange = self._incoming
        if exchange is None or exchange.ended or exchange.unread is not None:
            return
        exchange.fresh = True
        if exchange.received + len(body) > self._limits.body_bytes:
            exchange.unread = self._too_large()
        elif not self._listener.hold(len(body)):
            exchange.unread = Unavailable("Too many requests are being received.", reason=DropReason.OVERLOADED)
        else:
            exchange.received += len(body)
            exchange.add_body(body)

    def on_message_complete(self) -> None:
        exchange, self._incoming = self._incoming, None
        self.receive_deadline = _NEVER
        if exchange is not None:
            exchange.complete = True
            exchange.fresh = True

    # the exchange's side

    def write(self, data: bytes) -> None:
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def common_headers(self, exchange: Exchange) -> bytes:
        if not exchange.complete or self._listener.closing:
            exchange.keep_alive = False
        if not exchange.keep_alive:
            return self._listener.date + b"connection: close\r\n"
        return self._listener.date if exchange.chunked else self._listener.date + b"connection: keep-alive\r\n"

    def release(self, exchange: Exchange) -> None:
        """The exchange's body is no longer held."""
        self._listener.let_go(exchange.received)
        exchange.received = 0

    def close_after(self) -> None:
        """Close once what is being answered is out."""
        if self._current is None:
            self._close()
        else:
            self._current.keep_alive = False

    def abort(self) -> None:
        self._transport.abort()

    def done(self, exchange: Exchange) -> None:
        """The response is whole: the next request, if this connection lives on."""
        self._app.ended(exchange)
        self._current = None
        if not exchange.keep_alive or self._refusal is not None:
            self._close()
            return
        if self._transport.is_closing():
            return
        if self._waiting:
            self._current = following = self._waiting.popleft()
            following.fresh = False
            following.paused = self.write_deadline != _NEVER
            self._app.advance(following)
        elif not self._in_head:
            self.receive_deadline = self._listener.now + self._limits.idle_s

    # deadlines

    def expired(self, now: float) -> None:
        """A deadline has passed; called by the listener's sweep."""
        if self._deaf or now >= self.write_deadline:
            self.abort()
        elif self._in_head or self._incoming is not None:
            self._refusal = self._refusal or RequestTimeout("The request was not received in time.", retry=False)
            self._refuse()
        else:
            self._close()

    # closing

    def _refuse(self) -> None:
        """Answer a request that broke the protocol, or just close where another one is being answered."""
        self.receive_deadline = _NEVER
        error = cast(InferDeckError, self._refusal)
        self._deaf = True
        exchange = self._current
        if exchange is not None and exchange.taken and not exchange.ended:
            return
        if exchange is None:
            exchange = Exchange(self, b"", b"", {}, time.time(), time.monotonic())
            self._current = exchange
        exchange.complete = False
        exchange.taken = True
        exchange.refuse(error)

    def _close(self) -> None:
        """Close after what is written has gone out.

        A client that is still sending would have its response destroyed by a reset: say that we are done, and read on
        for a moment without looking.
        """
        self._drop_waiting()
        still_sending = self._in_head or self._incoming is not None or self._refusal is not None
        self._deaf = True
        self.receive_deadline = self._listener.now + self._limits.linger_s
        if still_sending and not self._transport.is_closing() and self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    def _drop_waiting(self) -> None:
        while self._waiting:
            exchange = self._waiting.popleft()
            exchange.gone()
            self._app.ended(exchange)

    # parsing

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            if not self._parser_may_stop():
                self._refusal = self._refusal or InvalidRequest("The request is not well-formed HTTP.")

    def _parser_may_stop(self) -> bool:
        """Bytes after a request that said ``Connection: close`` are nobody's."""
        if self._in_head or self._incoming is not None or self._latest is None or self._latest.keep_alive:
            return False
        self._deaf = True
        return True

    def _without_upgrade(self, rest: bytes) -> None:
        """Serve a request that offers another protocol as what it is, over HTTP/1.1.

        The parser takes what follows such a head for the other protocol, the body included; Java's client offers h2c
        with its first request. A fresh parser is given the same head without the offer.
        """
        exchange = self._latest
        if exchange is None or self._refusal is not None:
            return
        if exchange.method == b"CONNECT":
            self._refusal = InvalidRequest("This server tunnels nothing.")
            return
        fields = {name: value for name, value in exchange.fields.items() if name != b"connection"}
        if self._current is exchange:
            self._current = None
        else:
            self._waiting.pop()
        self._incoming = None
        self._parser = httptools.HttpRequestParser(self)
        head = b"%b %b HTTP/1.1\r\n" % (exchange.method, exchange.target)
        head += b"".join(b"%b: %b\r\n" % field for field in fields.items())
        self._feed(head + b"\r\n" + rest)

    def _check_head(self, received: int) -> None:
        """Bound a head that is not whole yet: by what the parser has told of it, and by what it may still hold back."""
        self._raw_head += received
        limits = self._limits
        if self._field_count > limits.fields or max(self._raw_head, self._head_size) > limits.head_bytes:
            self._refusal = self._refusal or _head_too_large()

    def _too_large(self) -> TooLarge:
        return TooLarge(f"The request body is larger than {self._limits.body_bytes} bytes.")


def _head_too_large() -> HeadersTooLarge:
    return HeadersTooLarge("The request's headers are too large or too many.")
