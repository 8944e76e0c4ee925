"""One client connection: bytes to requests, and what a client may not do.

httptools (llhttp) parses in its strict mode. On top of it: a bounded head (431), an absolute deadline for receiving
(408), a bounded body, exactly one way to say how long a body is (400), and no work for a client that has left: reading
never stops while a response is made, so a disconnect is seen at once, for plain calls as for streams. It stops while
responses that are made are not taken, so that what waits to be sent is bounded.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from typing import NoReturn, cast

import httptools

from control_plane.contracts.errors import (
    DropReason,
    InferDeckError,
    InvalidRequest,
    RequestTimeout,
    Unavailable,
)
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.http.head import Head, body_too_large, too_large, without_offer
from control_plane.gateway.http.host import Host
from control_plane.gateway.http.outflow import Outflow

_NEVER = math.inf


class _Refused(Exception):
    """Stops the parser."""


class Connection(asyncio.Protocol):
    """A connection answers its requests in their order, one at a time; pipelined ones wait."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._app = host.app
        self._limits = host.limits
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._outflow: Outflow = cast(Outflow, None)
        self._current: Exchange | None = None
        self._incoming: Exchange | None = None
        self._latest: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._refusal: InferDeckError | None = None
        self._in_head = False
        self._raw_head = 0
        self._head = Head(host.limits)
        self._arrival_unix = 0.0
        self._arrival_mono = 0.0
        self._body_size = 0
        self._gap = 0
        self._paused = False
        self._reading = True
        self._deaf = False
        self._closing = False
        self._discarded = 0
        self.receive_deadline = _NEVER
        self.output_due = _NEVER

    # the transport's side

    def connection_made(self, transport: asyncio.BaseTransport, carrier: asyncio.Transport | None = None) -> None:
        """``carrier`` is what TLS goes out over, where there is TLS."""
        self._transport = cast(asyncio.Transport, transport)
        self._outflow = Outflow(self._transport, carrier, self._limits.stall_s)
        self.receive_deadline = time.monotonic() + self._limits.head_s
        self._host.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._host.closed(self)
        self._deaf = True
        self.receive_deadline = self.output_due = _NEVER
        exchanges = [self._current, *self._waiting, self._incoming]
        self._current = self._incoming = None
        self._waiting.clear()
        for exchange in exchanges:
            if exchange is not None and not exchange.ended:
                exchange.gone()
                self._app.ended(exchange)

    def eof_received(self) -> bool:
        """A client that will send no more is taken to have left: the transport closes, and the call is cancelled."""
        self._watch_output()
        return False

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            self._discarded += len(data)
            if self._discarded > self._limits.linger_bytes:
                self.abort()
            return
        was_in_head = self._in_head
        self._gap += len(data)
        self._feed(data)
        if self._refusal is None:
            self._bound(len(data) if was_in_head else 0)
        if self._refusal is not None:
            self._queue_refusal()
        self._advance_current()
        self._pace()

    def pause_writing(self) -> None:
        self._paused = True
        self._watch_output()
        if self._current is not None:
            self._current.paused = True
        self._pace()

    def resume_writing(self) -> None:
        self._paused = False
        exchange = self._current
        if exchange is not None and exchange.paused:
            exchange.paused = False
            if exchange.on_drained is not None:
                exchange.on_drained()
        self._pace()

    # the parser's side

    def on_message_begin(self) -> None:
        self._in_head = True
        self._raw_head = 0
        self._head = Head(self._limits)
        self._arrival_unix = time.time()
        self._arrival_mono = time.monotonic()
        self.receive_deadline = self._arrival_mono + self._limits.head_s

    def on_url(self, url: bytes) -> None:
        self._head.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if (wrong := self._head.add(name, value, trailing=not self._in_head)) is not None:
            self._reject(wrong)

    def on_headers_complete(self) -> None:
        head, limits, version = self._head, self._limits, self._parser.get_http_version()
        if (wrong := head.objection(version)) is not None:
            self._reject(wrong)
        if self._current is not None and len(self._waiting) >= limits.pipelined:
            self._reject(InvalidRequest("Too many requests are pipelined."))
        exchange = Exchange(
            self, self._parser.get_method(), head.target, head.fields, self._arrival_unix, self._arrival_mono
        )
        exchange.chunked = version == "1.1"
        exchange.keep_alive = self._parser.should_keep_alive()
        if (length := head.fields.get(b"content-length")) is not None:
            exchange.content_length = int(length)
            if exchange.content_length > limits.body_bytes:
                exchange.unread = body_too_large(limits)
        self._in_head = False
        self._body_size = self._gap = 0
        self._incoming = self._latest = exchange
        self.receive_deadline = self._arrival_mono + limits.receive_s
        self._enqueue(exchange)

    def on_body(self, body: bytes) -> None:
        self._gap = 0
        exchange = self._incoming
        if exchange is None or exchange.ended or exchange.unread is not None:
            return
        exchange.fresh = True
        self._body_size += len(body)
        if self._body_size > self._limits.body_bytes:
            exchange.unread = body_too_large(self._limits)
        elif exchange.method != b"POST":
            # Nothing else here takes a body: it is read, and not kept.
            return
        elif not self._host.hold(len(body)):
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
        self._outflow.write(data)

    def common_headers(self, exchange: Exchange) -> bytes:
        if not exchange.complete or self._host.closing:
            exchange.keep_alive = False
        if not exchange.keep_alive:
            return self._host.date + b"connection: close\r\n"
        return self._host.date if exchange.chunked else self._host.date + b"connection: keep-alive\r\n"

    def release(self, exchange: Exchange) -> None:
        """The exchange's body is no longer held."""
        self._host.let_go(exchange.received)
        exchange.received = 0

    def close_after(self) -> None:
        """Close once what is being answered is out."""
        if self._current is None:
            self._close()
        else:
            self._current.keep_alive = False

    def abort(self) -> None:
        self._transport.abort()

    @property
    def forsaken(self) -> bool:
        """The client closed below TLS, and does not take what waits: nobody tells us then."""
        return self._outflow.cut_off and not self._closing

    def done(self, exchange: Exchange) -> None:
        """The response is whole: the next request, if this connection lives on."""
        self._app.ended(exchange)
        self._current = None
        if not exchange.keep_alive:
            self._close()
        elif self._transport.is_closing():
            pass
        elif self._waiting:
            self._current = following = self._waiting.popleft()
            following.paused = self._paused
            self._advance(following)
        else:
            if not self._in_head:
                self.receive_deadline = self._host.now + self._limits.idle_s
            self._pace()

    # deadlines

    def expired(self, now: float) -> None:
        """Something is due; called by the listener's sweep."""
        if now >= self.output_due:
            if self._outflow.stalled(now):
                self.abort()
                return
            # With TLS nobody says of a connection that is being closed that it is not paused any more.
            if (self._closing or not self._paused) and not self._outflow.unsent:
                self.output_due = _NEVER
                if self._closing:
                    self.receive_deadline = now + self._limits.linger_s
        if now < self.receive_deadline:
            return
        if self._closing:
            self.abort()
        elif self._in_head or self._incoming is not None:
            self._refusal = RequestTimeout("The request was not received in time.", retry=False)
            self._queue_refusal()
            self._advance_current()
        else:
            self._close()

    def _watch_output(self) -> None:
        """Have every sweep look at whether the client takes what is written."""
        if self.output_due == _NEVER:
            self.output_due = 0.0
            self._outflow.watch()

    def _pace(self) -> None:
        """Read, unless responses that are made are not taken, and none is being made."""
        wait = self._paused and self._current is None and not self._closing
        if wait is not self._reading or self._transport.is_closing():
            return
        self._reading = not wait
        if wait:
            self._transport.pause_reading()
            self.receive_deadline = _NEVER
            return
        self._transport.resume_reading()
        if not self._closing:
            # What was not read could not come in time.
            self._arrival_mono = now = time.monotonic()
            self.receive_deadline = now + (self._limits.head_s if self._in_head else self._limits.idle_s)

    # turns

    def _enqueue(self, exchange: Exchange) -> None:
        if self._current is None:
            self._current = exchange
            exchange.paused = self._paused
        else:
            self._waiting.append(exchange)

    def _advance_current(self) -> None:
        if self._current is not None and self._current.fresh:
            self._advance(self._current)

    def _advance(self, exchange: Exchange) -> None:
        exchange.fresh = False
        if exchange.refusal is None:
            self._app.advance(exchange)
        else:
            exchange.taken = True
            exchange.refuse(exchange.refusal)

    def _queue_refusal(self) -> None:
        """Answer the request that broke the protocol in its turn, and read nothing after it."""
        self._deaf = True
        self.receive_deadline = _NEVER
        exchange = self._incoming
        if exchange is None:
            exchange = Exchange(self, b"", b"", {}, time.time(), time.monotonic())
            self._enqueue(exchange)
        exchange.refusal = self._refusal
        exchange.fresh = True

    # closing

    def _close(self) -> None:
        """Close after what is written has gone out.

        A client that is still sending would have its response destroyed by a reset: say that we are done, and read on
        for a moment without looking.
        """
        if self._closing:
            return
        while self._waiting:
            exchange = self._waiting.popleft()
            exchange.gone()
            self._app.ended(exchange)
        still_sending = self._in_head or self._incoming is not None or self._refusal is not None
        self._deaf = self._closing = True
        self.receive_deadline = _NEVER
        self._watch_output()
        self._pace()
        if still_sending and not self._transport.is_closing() and self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    # parsing

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            if self._refusal is None and not self._parser_may_stop():
                self._refusal = InvalidRequest("The request is not well-formed HTTP.")

    def _reject(self, error: InferDeckError) -> NoReturn:
        """Out of the parser's callbacks: nothing more of what it holds is parsed."""
        self._refusal = error
        raise _Refused

    def _parser_may_stop(self) -> bool:
        """Bytes after a request that said ``Connection: close`` are nobody's."""
        if self._in_head or self._incoming is not None or self._latest is None or self._latest.keep_alive:
            return False
        self._deaf = True
        return True

    def _without_upgrade(self, rest: bytes) -> None:
        """Serve a request that offers another protocol as what it is without the offer.

        The parser takes what follows such a head for the other protocol, the body included; Java's client offers h2c
        with its first request. A fresh parser is given the same head without the offer.
        """
        exchange = self._latest
        if exchange is None:
            return
        if self._current is exchange:
            self._current = None
        else:
            self._waiting.pop()
        self._incoming = None
        if exchange.method == b"CONNECT":
            self._refusal = InvalidRequest("This server tunnels nothing.")
            return
        head = without_offer(exchange.method, exchange.target, self._parser.get_http_version(), exchange.fields)
        self._parser = httptools.HttpRequestParser(self)
        self._feed(head + rest)

    def _bound(self, head_bytes: int) -> None:
        """Bound what is not whole yet: by what the parser has told of it, and by what it may still hold back.

        ``head_bytes`` of those that just came belong to a head. What comes between two pieces of a body, or after the
        last one, is bounded like a head.
        """
        limits = self._limits
        if self._in_head:
            self._raw_head += head_bytes
            if max(self._raw_head, self._head.size) > limits.head_bytes:
                self._refusal = too_large()
        elif self._incoming is not None and self._gap > limits.head_bytes:
            self._refusal = too_large()
