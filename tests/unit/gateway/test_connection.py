from __future__ import annotations

import asyncio
import math
import time
from typing import Any, cast

import pytest

from control_plane.gateway.http.connection import Connection
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.http.limits import ConnectionLimits
from control_plane.gateway.http.listener import Listener

STALL_S = 60.0
LINGER_S = 2.0


class Transport:
    """A kernel that takes what the test lets it take."""

    def __init__(self) -> None:
        self.data = b""
        self.unsent = 0
        self.reading = True
        self.closed = self.aborted = self.half_closed = False

    def write(self, data: bytes) -> None:
        self.data += data
        self.unsent += len(data)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def get_extra_info(self, name: str) -> None:
        return None

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.half_closed = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True


class App:
    """Answers every whole request with ``body``, at once or when the test does."""

    def __init__(self) -> None:
        self.body = b"ok"
        self.at_once = True
        self.taken: list[Exchange] = []

    def advance(self, exchange: Exchange) -> None:
        if exchange.complete and not exchange.taken:
            exchange.taken = True
            self.taken.append(exchange)
            if self.at_once:
                exchange.respond(200, self.body)

    def ended(self, exchange: Exchange) -> None:
        pass


class Rig:
    def __init__(self, **limits: Any) -> None:
        self.app = App()
        self.listener = Listener(
            self.app, cast(Any, None), ConnectionLimits(stall_s=STALL_S, linger_s=LINGER_S, **limits)
        )
        self.transport = Transport()
        self.connection = Connection(self.listener)
        self.connection.connection_made(cast(asyncio.Transport, self.transport))
        self.now = time.monotonic()

    def receive(self, data: bytes) -> None:
        self.connection.data_received(data)

    def sweep(self, seconds: float) -> None:
        """As the listener does it, so many seconds later."""
        self.now += seconds
        self.listener.now = self.now
        if self.connection.receive_deadline <= self.now or self.connection.output_due <= self.now:
            self.connection.expired(self.now)

    @property
    def statuses(self) -> list[int]:
        return [int(part[:3]) for part in self.transport.data.split(b"HTTP/1.1 ")[1:]]


def get(path: str = "/", *lines: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "host: t", *lines, "", ""]).encode()


@pytest.fixture
async def rig() -> Rig:
    return Rig()


@pytest.mark.parametrize("ending", ["close", "still sending", "draining"])
async def test_a_response_that_ends_the_connection_is_sent_as_long_as_its_client_reads(rig: Rig, ending: str) -> None:
    rig.app.body = b"x" * 1000
    if ending == "still sending":
        rig.receive(get() + b"GARBAGE\r\n\r\n")
    elif ending == "draining":
        rig.app.at_once = False
        rig.receive(get())
        rig.listener.stop_accepting()
        rig.app.taken[0].respond(200, rig.app.body)
    else:
        rig.receive(get("/", "connection: close"))
    for _ in range(20):
        rig.transport.unsent -= 10
        rig.sweep(STALL_S - 1)
        assert not rig.transport.aborted
    rig.sweep(STALL_S)
    assert rig.transport.aborted


async def test_a_client_that_still_sends_is_given_a_moment_once_everything_is_out(rig: Rig) -> None:
    rig.receive(b"GARBAGE\r\n\r\n")
    assert rig.statuses == [400]
    assert rig.transport.half_closed
    rig.sweep(LINGER_S + 1)
    assert not rig.transport.aborted
    rig.transport.unsent = 0
    rig.sweep(0.5)
    rig.sweep(LINGER_S - 0.5)
    assert not rig.transport.aborted
    rig.sweep(0.5)
    assert rig.transport.aborted


async def test_a_reader_is_dropped_for_having_stopped_not_for_being_slow(rig: Rig) -> None:
    rig.app.body = b"x" * 1_000_000
    rig.receive(get())
    rig.connection.pause_writing()
    for _ in range(50):
        rig.transport.unsent -= 1
        rig.sweep(STALL_S / 2)
        assert not rig.transport.aborted
    rig.sweep(STALL_S / 2)
    assert not rig.transport.aborted
    rig.sweep(STALL_S / 2)
    assert rig.transport.aborted


async def test_nothing_is_read_from_a_client_that_leaves_its_responses_unread(rig: Rig) -> None:
    rig.receive(get())
    rig.connection.pause_writing()
    assert not rig.transport.reading
    rig.transport.unsent = 0
    rig.connection.resume_writing()
    assert rig.transport.reading
    assert rig.connection.receive_deadline > time.monotonic()
    rig.receive(get())
    assert rig.statuses == [200, 200]


async def test_a_request_that_was_not_read_meanwhile_is_not_late(rig: Rig) -> None:
    rig.receive(get() + b"GET / HT")
    rig.connection.pause_writing()
    assert not rig.transport.reading
    assert rig.connection.receive_deadline == math.inf
    rig.transport.unsent = 0
    rig.connection.resume_writing()
    assert rig.connection.receive_deadline > time.monotonic() + ConnectionLimits().head_s / 2
    rig.receive(b"TP/1.1\r\nhost: t\r\n\r\n")
    assert rig.statuses == [200, 200]


async def test_a_client_is_read_from_while_it_is_being_answered(rig: Rig) -> None:
    rig.app.at_once = False
    rig.receive(get())
    rig.connection.pause_writing()
    assert rig.transport.reading
    rig.app.taken[0].respond(200, b"ok")
    assert not rig.transport.reading


@pytest.mark.parametrize(
    ("garbage", "status"),
    [
        (b"GARBAGE\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: t\r\ntransfer-encoding: gzip\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"CONNECT t:1 HTTP/1.1\r\nhost: t\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: t\r\nx: " + b"x" * 40_000, 431),
    ],
)
@pytest.mark.parametrize("split", [False, True])
async def test_what_is_wrong_with_a_request_is_answered_to_that_request(
    rig: Rig, garbage: bytes, status: int, split: bool
) -> None:
    for data in [get(), get(), garbage] if split else [get() + get() + garbage]:
        rig.receive(data)
    rig.receive(get())
    assert rig.statuses == [200, 200, status]
    assert rig.transport.half_closed


async def test_a_request_that_never_ends_is_refused_after_the_answer_to_the_one_before(rig: Rig) -> None:
    rig.app.at_once = False
    rig.receive(get() + b"GET / HTTP/1.1\r\nx: ")
    rig.sweep(ConnectionLimits().head_s + 1)
    assert rig.statuses == []
    rig.app.taken[0].respond(200, b"ok")
    assert rig.statuses == [200, 408]
    assert rig.transport.half_closed


async def test_only_a_body_that_is_wanted_is_kept(rig: Rig) -> None:
    head = b"%b / HTTP/1.1\r\nhost: t\r\ncontent-length: 10\r\n\r\n"
    rig.receive(head % b"GET" + b"12345")
    assert rig.listener.held == 0
    rig.receive(b"67890" + head % b"POST" + b"12345")
    assert rig.statuses == [200]
    assert rig.listener.held == 5


async def test_a_body_that_nobody_wants_is_bounded_all_the_same() -> None:
    rig = Rig(body_bytes=10)
    rig.receive(b"GET / HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\nb\r\n12345678901\r\n")
    (exchange,) = [rig.connection._current]
    assert exchange is not None
    assert exchange.unread is not None


@pytest.mark.parametrize(
    "trailer", [b"x: " + b"a" * 65536, b"x: a\r\n" * 10_000, b"connection: " + b"a" * 60_000 + b"\r\n"]
)
async def test_trailers_are_bounded_like_a_head(rig: Rig, trailer: bytes) -> None:
    rig.receive(b"GET / HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n0\r\n")
    sent = 0
    while not rig.statuses and sent < 500_000:
        rig.receive(trailer)
        sent += len(trailer)
    assert rig.statuses == [431]
    assert rig.transport.half_closed


async def test_trailers_that_trickle_in_are_bounded_too(rig: Rig) -> None:
    rig.receive(b"GET / HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: ")
    for _ in range(50):
        rig.receive(b"a" * 1000)
    assert rig.statuses == [431]


async def test_a_few_trailers_are_passed_over(rig: Rig) -> None:
    rig.receive(
        b"GET / HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n0\r\nhost: u\r\nhost: v\r\n\r\n" + get()
    )
    assert rig.statuses == [200, 200]


@pytest.mark.parametrize(
    ("version", "connection", "stays"),
    [
        ("1.1", "Upgrade, HTTP2-Settings", True),
        ("1.1", "Upgrade, close", False),
        ("1.1", "close, Upgrade", False),
        ("1.0", "Upgrade", False),
        ("1.0", "keep-alive, Upgrade", True),
    ],
)
async def test_a_request_that_offers_another_protocol_keeps_its_own(
    rig: Rig, version: str, connection: str, stays: bool
) -> None:
    rig.receive(f"GET / HTTP/{version}\r\nhost: t\r\nupgrade: h2c\r\nconnection: {connection}\r\n\r\n".encode())
    assert rig.statuses == [200]
    assert (b"connection: close" in rig.transport.data) is not stays
    assert rig.transport.closed is not stays
    assert rig.app.taken[0].chunked is (version == "1.1")
