"""The protocol, frame by frame, with the peer played by hand."""

from __future__ import annotations

import asyncio
import struct
from random import Random
from typing import Any

import pytest

from control_plane.router.forwarder import grpc_stream
from control_plane.router.forwarder.grpc_stream import GrpcStream, StreamBroken

DATA, HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
ACK = END_STREAM = 1


def frame(kind: int, payload: bytes = b"", flags: int = 0, stream: int = 1) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def message(data: bytes) -> bytes:
    return b"\x00" + len(data).to_bytes(4, "big") + data


def frames(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """(kind, flags, stream, payload) of each frame."""
    found = []
    while data:
        length = int.from_bytes(data[:3], "big")
        found.append((data[3], data[4], int.from_bytes(data[5:9], "big"), data[9 : 9 + length]))
        data = data[9 + length :]
    return found


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        assert not self.closed
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def take(self) -> list[tuple[int, int, int, bytes]]:
        taken, self.written = frames(self.written), b""
        return taken


class Peer:
    """A stream that is connected, with what it heard and wrote."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.ends: list[str] = []
        self.transport = Transport()
        self.stream = GrpcStream("127.0.0.1:1", "/a.B/C", self.heard.append, self.ends.append)
        self.stream.connection_made(self.transport)
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        assert self.transport.written.startswith(preface)
        self.transport.written = self.transport.written[len(preface) :]
        self.opening = self.transport.take()

    def says(self, *parts: bytes) -> None:
        for part in parts:
            self.stream.data_received(part)

    def sent(self) -> bytes:
        """The bytes of all data frames so far."""
        return b"".join(payload for kind, _, stream, payload in self.transport.take() if kind == DATA and stream == 1)


@pytest.fixture
async def peer() -> Peer:
    return Peer()


async def test_it_opens_with_settings_and_the_call(peer: Peer) -> None:
    assert [(kind, stream) for kind, _, stream, _ in peer.opening] == [(SETTINGS, 0), (WINDOW, 0), (HEADERS, 1)]
    headers = peer.opening[2][3]
    for text in (b":path\x06/a.B/C", b":method\x04POST", b"te\x08trailers", b"content-type\x10application/grpc"):
        assert text in headers
    settings = dict(struct.iter_unpack(">HI", peer.opening[0][3]))
    assert settings[2] == 0, "no pushes"
    assert settings[1] == 0, "no header table to keep"


async def test_messages_arrive_whole_however_the_bytes_are_cut(peer: Peer) -> None:
    rng = Random(1)
    sent = [rng.randbytes(rng.choice([0, 1, 5, 300, 20_000])) for _ in range(60)]
    data = b"".join(map(message, sent))
    wire = b""
    while data:
        size = rng.randint(1, 9_000)
        if rng.random() < 0.2:
            padding = rng.randint(0, 20)
            payload = bytes((padding,)) + data[:size] + bytes(padding)
            wire += frame(DATA, payload, flags=8)
        else:
            wire += frame(DATA, data[:size])
        data = data[size:]
        if rng.random() < 0.3:
            wire += frame(WINDOW, (5).to_bytes(4, "big"), stream=0) + frame(99, b"unknown kinds are passed over")
    while wire:
        size = rng.choice([1, 2, 8, 9, 10, 5_000])
        peer.says(wire[:size])
        wire = wire[size:]
    assert peer.heard == sent
    assert peer.ends == []


async def test_what_is_sent_keeps_to_the_peers_windows_and_frame_size(peer: Peer) -> None:
    big = bytes(200_000)
    peer.stream.send(big)
    peer.stream.send(b"after")
    await asyncio.sleep(0)
    first = peer.transport.take()
    assert sum(len(payload) for _, _, _, payload in first) == 65_535
    assert max(len(payload) for _, _, _, payload in first) <= 16_384
    got = b"".join(payload for _, _, _, payload in first)
    peer.says(frame(WINDOW, (10**6).to_bytes(4, "big"), stream=0))
    assert peer.sent() == b"", "the stream's own window is shut"
    peer.says(frame(SETTINGS, struct.pack(">HIHI", 4, 100_000, 5, 32_768), stream=0))
    written = peer.transport.take()
    assert (SETTINGS, ACK, 0, b"") in written
    more = [payload for kind, _, _, payload in written if kind == DATA]
    assert sum(map(len, more)) == 100_000 - 65_535
    assert max(map(len, more)) == min(32_768, 100_000 - 65_535)
    got += b"".join(more)
    peer.says(frame(WINDOW, (10**6).to_bytes(4, "big"), stream=1))
    got += peer.sent()
    assert got == message(big) + message(b"after")


async def test_what_one_turn_of_the_loop_sends_goes_out_in_one_write(peer: Peer) -> None:
    writes: list[bytes] = []
    peer.transport.write = writes.append  # type: ignore[method-assign, assignment]
    for number in range(5):
        peer.stream.send(b"%d" % number)
    await asyncio.sleep(0)
    peer.stream.send(b"later")
    await asyncio.sleep(0)
    sent = [b"".join(payload for _, _, _, payload in frames(data)) for data in writes]
    assert sent == [b"".join(message(b"%d" % number) for number in range(5)), message(b"later")]


async def test_what_waits_to_be_sent_is_dropped_at_the_end(peer: Peer) -> None:
    peer.stream.send(b"unsent")
    peer.stream.close()
    await asyncio.sleep(0)
    assert peer.transport.take() == [(RST, 0, 1, (8).to_bytes(4, "big"))]


async def test_a_window_that_shrinks_below_zero_is_waited_out(peer: Peer) -> None:
    peer.stream.send(bytes(50_000))
    await asyncio.sleep(0)
    sent = len(peer.sent())
    peer.says(frame(SETTINGS, struct.pack(">HI", 4, 10_000), stream=0))
    peer.stream.send(bytes(20_000))
    await asyncio.sleep(0)
    assert peer.sent() == b""
    peer.says(frame(WINDOW, (10**6).to_bytes(4, "big"), stream=0), frame(WINDOW, (60_000).to_bytes(4, "big"), stream=1))
    assert sent + len(peer.sent()) == 10_000 + 60_000


async def test_what_was_read_is_given_back_to_the_peer(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_stream, "_REFILL", 1_000)
    peer.says(frame(DATA, message(bytes(600))))
    assert peer.transport.take() == []
    peer.says(frame(DATA, message(bytes(600))))
    given = [(kind, stream, int.from_bytes(payload, "big")) for kind, _, stream, payload in peer.transport.take()]
    assert given == [(WINDOW, 0, 1_210), (WINDOW, 1, 1_210)]


async def test_pings_are_answered(peer: Peer) -> None:
    peer.says(frame(PING, b"12345678", stream=0), frame(PING, b"87654321", flags=ACK, stream=0))
    assert peer.transport.take() == [(PING, ACK, 0, b"12345678")]


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (frame(HEADERS, b"trailers", flags=END_STREAM | 4), "ended"),
        (frame(DATA, b"", flags=END_STREAM), "ended"),
        (frame(RST, (8).to_bytes(4, "big")), "reset the stream (8)"),
        (frame(GOAWAY, bytes(8), stream=0), "no new connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/2"),
        (frame(DATA, b"\x01\x00\x00\x00\x00"), "compressed"),
        (frame(DATA, b"\x00\xff\xff\xff\xff"), "too large"),
    ],
)
async def test_every_end_is_told_once(peer: Peer, last: bytes, words: str) -> None:
    peer.says(last)
    peer.says(frame(DATA, message(b"late")))
    peer.stream.connection_lost(None)
    assert len(peer.ends) == 1
    assert words in peer.ends[0]
    assert peer.heard == []
    assert peer.transport.closed
    peer.stream.send(b"into the void")


async def test_headers_and_a_goaway_for_later_streams_end_nothing(peer: Peer) -> None:
    peer.says(frame(HEADERS, b"\x88", flags=4), frame(GOAWAY, struct.pack(">II", 1, 0), stream=0))
    peer.says(frame(DATA, message(b"still here")))
    assert peer.heard == [b"still here"]
    assert peer.ends == []


async def test_a_lost_connection_is_told(peer: Peer) -> None:
    peer.stream.connection_lost(ConnectionResetError("reset by peer"))
    assert "reset by peer" in peer.ends[0]


async def test_closing_cancels_the_call_and_is_told_nobody(peer: Peer) -> None:
    peer.stream.close()
    peer.stream.close()
    peer.says(frame(DATA, message(b"late")))
    peer.stream.connection_lost(None)
    assert peer.transport.take() == [(RST, 0, 1, (8).to_bytes(4, "big"))]
    assert (peer.ends, peer.heard) == ([], [])


async def test_a_listener_that_breaks_the_stream_hears_no_more() -> None:
    peer = Peer()

    def refuse(data: bytes) -> None:
        peer.heard.append(data)
        raise StreamBroken("out of order")

    peer.stream._on_message = refuse
    peer.says(frame(DATA, message(b"1") + message(b"2")))
    assert (peer.heard, peer.ends) == ([b"1"], ["out of order"])


async def test_a_listener_may_close_the_stream_in_the_middle() -> None:
    peer = Peer()

    def close(data: bytes) -> None:
        peer.heard.append(data)
        peer.stream.close()

    peer.stream._on_message = close
    peer.says(frame(DATA, message(b"1") + message(b"2")) + frame(DATA, message(b"3")))
    assert (peer.heard, peer.ends) == ([b"1"], [])


async def test_a_silent_peer_is_asked_and_then_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_stream, "PING_EVERY_MS", 30)
    monkeypatch.setattr(grpc_stream, "PING_TIMEOUT_MS", 30)
    answering, silent = Peer(), Peer()
    pings = 0
    async with asyncio.timeout(20):
        while not silent.ends or pings < 3:
            await asyncio.sleep(0.005)
            for kind, flags, _, payload in answering.transport.take():
                if kind == PING and not flags:
                    pings += 1
                    answering.says(frame(PING, payload, flags=ACK, stream=0))
    assert "silent" in silent.ends[0]
    assert answering.ends == []
    answering.stream.close()


def test_a_path_that_is_no_header_is_refused() -> None:
    with pytest.raises(ValueError, match="too long"):
        GrpcStream("h:1", "/" + "x" * 200, print, print)
