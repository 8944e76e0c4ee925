"""One bidirectional gRPC stream, spoken straight over HTTP/2 on the event loop's own transport.

A frame that arrives through ``grpc.aio`` costs about 0.5 ms of CPU at 50 frames a second (it has threads of its own and
a way from them to the loop); through this it costs about 0.13 ms, and that is most of what a gateway spends on a token.
Any gRPC server can be at the other end: this is RFC 9113 as far as a client with one stream on its connection needs it,
and gRPC's length-prefixed messages. Headers that come back are not read: that a stream ended matters, not its status.
"""

from __future__ import annotations

import asyncio
import functools
import struct
from collections.abc import Callable
from typing import Any, cast

from control_plane.contracts.identity import Peer, client_context
from control_plane.contracts.wire.channel import MESSAGE_BYTES, PING_EVERY_MS, PING_TIMEOUT_MS

_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_ACK = _END_STREAM = 0x1
_END_HEADERS, _PADDED = 0x4, 0x8
_HEADER_TABLE_SIZE, _ENABLE_PUSH, _INITIAL_WINDOW_SIZE, _MAX_FRAME_SIZE = 1, 2, 4, 5
_STREAM = 1
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DEFAULT_WINDOW = 65_535
_WINDOW = 1 << 30
_REFILL = _WINDOW // 2
_FRAME_BYTES = 1 << 20
_PING_DATA = b"are you?"
_TLS_CLOSE_S = 1.0
_CANCEL = (8).to_bytes(4, "big")


class StreamBroken(Exception):
    """The peer says something that it can't, or is not who it should be."""


async def open_stream(
    address: str,
    path: str,
    on_message: Callable[[bytes], None],
    on_end: Callable[[str], None],
    timeout_s: float,
    credentials: str = "",
    peer: Peer = Peer.WORKER,
) -> GrpcStream:
    """Connect to ``host:port`` and start the call ``path`` ("/package.Service/Method").

    ``on_message`` gets every message as it arrives; a StreamBroken from it ends the stream. ``on_end`` is called once,
    with the cause, unless the stream was closed from here. With ``credentials`` (a file) it is mutual TLS, and nobody
    but a ``peer`` will do. Raises OSError or TimeoutError when nobody answers, SettingsError for credentials that
    cannot be used.
    """
    host, _, port = address.rpartition(":")
    tls: dict[str, object] = {}
    if credentials:
        # The peer's name says what it is: where it listens says nothing about that.
        context = await asyncio.to_thread(client_context, credentials)
        tls = {"ssl": context, "server_hostname": peer.host, "ssl_shutdown_timeout": _TLS_CLOSE_S}
    make = functools.partial(GrpcStream, address, path, on_message, on_end, secure=bool(credentials))
    async with asyncio.timeout(timeout_s):
        _, stream = await asyncio.get_running_loop().create_connection(
            make, host.strip("[]"), int(port), **cast(Any, tls)
        )
    return stream


class GrpcStream(asyncio.Protocol):
    """Its two ends are ``send`` and ``on_message``. All of it runs on the event loop's thread, and nothing waits."""

    def __init__(
        self,
        authority: str,
        path: str,
        on_message: Callable[[bytes], None],
        on_end: Callable[[str], None],
        *,
        secure: bool = False,
    ) -> None:
        self._headers = _header_block(authority, path, "https" if secure else "http")
        self._on_message = on_message
        self._on_end: Callable[[str], None] | None = on_end
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._partial = b""
        self._consumed = 0
        self._unsent = bytearray()
        self._flush_due = False
        self._stream_window = self._connection_window = self._peer_window = _DEFAULT_WINDOW
        self._peer_frame_bytes = 16_384
        self._heard = False
        self._timer: asyncio.TimerHandle | None = None

    def send(self, message: bytes) -> None:
        """In this turn of the loop, as far as the peer's window goes; the rest when it opens. After the end it goes
        nowhere."""
        if self._is_over():
            return
        self._unsent += b"\x00" + len(message).to_bytes(4, "big") + message
        if not self._flush_due:
            # What a turn has to send goes out together: a write costs a system call here and a wake-up there.
            self._flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def close(self) -> None:
        """Drop the connection: for the peer the call is cancelled. ``on_end`` is not called any more. Idempotent."""
        self._on_end = None
        self._shut()

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        ours = {_HEADER_TABLE_SIZE: 0, _ENABLE_PUSH: 0, _INITIAL_WINDOW_SIZE: _WINDOW, _MAX_FRAME_SIZE: _FRAME_BYTES}
        settings = b"".join(struct.pack(">HI", name, value) for name, value in ours.items())
        self._write(
            _PREFACE
            + _frame(_SETTINGS, 0, 0, settings)
            + _frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", _WINDOW - _DEFAULT_WINDOW))
            + _frame(_HEADERS, _END_HEADERS, _STREAM, self._headers)
        )
        self._timer = asyncio.get_running_loop().call_later(PING_EVERY_MS / 1000, self._ping)

    def data_received(self, data: bytes) -> None:
        if self._is_over():
            return
        self._heard = True
        if self._rest:
            data = self._rest + data
        begin, end = 0, len(data)
        try:
            while end - begin >= 9:
                length = data[begin] << 16 | data[begin + 1] << 8 | data[begin + 2]
                if length > _FRAME_BYTES:
                    raise StreamBroken("what answers does not speak HTTP/2")
                stop = begin + 9 + length
                if stop > end:
                    break
                kind, flags = data[begin + 3], data[begin + 4]
                if kind == _DATA:
                    self._data(flags, data[begin + 9 : stop])
                else:
                    stream = int.from_bytes(data[begin + 5 : begin + 9], "big")
                    self._control(kind, flags, stream, data[begin + 9 : stop])
                begin = stop
                if self._is_over():
                    return
        except StreamBroken as broken:
            self._end(str(broken))
            return
        self._rest = data[begin:]

    def connection_lost(self, error: Exception | None) -> None:
        self._end(f"the connection was lost: {error or 'closed by the peer'}")

    # --- frames in

    def _data(self, flags: int, payload: bytes) -> None:
        self._consumed += len(payload)
        if flags & _PADDED:
            payload = payload[1 : len(payload) - payload[0]]
        if self._partial:
            payload = self._partial + payload
        begin, end = 0, len(payload)
        while end - begin >= 5:
            length = int.from_bytes(payload[begin + 1 : begin + 5], "big")
            if payload[begin] or length > MESSAGE_BYTES:
                raise StreamBroken("a message is compressed or too large")
            stop = begin + 5 + length
            if stop > end:
                break
            self._on_message(payload[begin + 5 : stop])
            begin = stop
            if self._is_over():
                return
        self._partial = payload[begin:]
        if flags & _END_STREAM:
            raise StreamBroken("the peer ended the stream")
        if self._consumed >= _REFILL:
            update = struct.pack(">I", self._consumed)
            self._write(_frame(_WINDOW_UPDATE, 0, 0, update) + _frame(_WINDOW_UPDATE, 0, _STREAM, update))
            self._consumed = 0

    def _control(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        """Anything but data. Kinds that mean nothing to a client with one stream are passed over."""
        if kind == _SETTINGS:
            if not flags & _ACK:
                self._settings(payload)
        elif kind == _PING:
            if not flags & _ACK:
                self._write(_frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW_UPDATE:
            self._window_update(stream, payload)
        elif kind == _HEADERS:
            if flags & _END_STREAM:
                raise StreamBroken("the peer ended the stream")
        elif kind == _RST_STREAM:
            raise StreamBroken(f"the peer reset the stream ({int.from_bytes(payload, 'big')})")
        elif kind == _GOAWAY and int.from_bytes(payload[:4], "big") < _STREAM:
            raise StreamBroken("the peer takes no new connection")

    def _settings(self, payload: bytes) -> None:
        for name, value in struct.iter_unpack(">HI", payload[: len(payload) // 6 * 6]):
            if name == _INITIAL_WINDOW_SIZE:
                self._stream_window += value - self._peer_window
                self._peer_window = value
            elif name == _MAX_FRAME_SIZE:
                self._peer_frame_bytes = value
        self._write(_frame(_SETTINGS, _ACK, 0, b""))
        self._flush()

    def _window_update(self, stream: int, payload: bytes) -> None:
        increment = int.from_bytes(payload, "big") & 0x7FFFFFFF
        if stream:
            self._stream_window += increment
        else:
            self._connection_window += increment
        self._flush()

    # --- out

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _flush(self) -> None:
        self._flush_due = False
        unsent, frames = self._unsent, []
        while unsent and (room := min(self._stream_window, self._connection_window, self._peer_frame_bytes)) > 0:
            piece = bytes(unsent[:room])
            del unsent[:room]
            self._stream_window -= len(piece)
            self._connection_window -= len(piece)
            frames.append(_frame(_DATA, 0, _STREAM, piece))
        if frames:
            self._write(b"".join(frames))

    def _ping(self) -> None:
        """Nothing was heard for a while: ask."""
        loop = asyncio.get_running_loop()
        if self._heard:
            self._heard = False
            self._timer = loop.call_later(PING_EVERY_MS / 1000, self._ping)
        else:
            self._write(_frame(_PING, 0, 0, _PING_DATA))
            self._timer = loop.call_later(PING_TIMEOUT_MS / 1000, self._expect_answer)

    def _expect_answer(self) -> None:
        """A peer that does not answer in time is gone, host and all."""
        if self._heard:
            self._ping()
        else:
            self._end(f"the peer was silent for {(PING_EVERY_MS + PING_TIMEOUT_MS) / 1000:g} s")

    # --- the end

    def _is_over(self) -> bool:
        return self._on_end is None

    def _end(self, cause: str) -> None:
        on_end, self._on_end = self._on_end, None
        self._shut()
        if on_end is not None:
            on_end(cause)

    def _shut(self) -> None:
        self._unsent.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._write(_frame(_RST_STREAM, 0, _STREAM, _CANCEL))
        if self._transport is not None:
            self._transport.close()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


def _header_block(authority: str, path: str, scheme: str = "http") -> bytes:
    """The request's headers as HPACK literals, neither indexed nor compressed."""
    headers = (
        (":method", "POST"),
        (":scheme", scheme),
        (":path", path),
        (":authority", authority),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    )
    return b"".join(b"\x00" + _literal(name) + _literal(value) for name, value in headers)


def _literal(text: str) -> bytes:
    data = text.encode("ascii")
    if len(data) > 126:
        raise ValueError(f"too long for a header: {text}")
    return bytes((len(data),)) + data
