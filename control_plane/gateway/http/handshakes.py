"""TLS handshakes that are under way: bounded in time and in number, and no connection until they are done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from control_plane.gateway.http.certificate import ServerCertificate
from control_plane.gateway.http.connection import Connection
from control_plane.gateway.http.limits import ConnectionLimits

_BUFFER_BYTES = 64 * 1024
"""Unsent bytes at which writing is paused, as without TLS; the loop's own limit for TLS is eight times that."""

log = logging.getLogger(__name__)

_CLOSE_S = 3600.0
"""The loop's own patience with a client that does not answer our close; the connection's is shorter, and knows whether
the client still reads."""


class Handshakes:
    """``failed`` counts handshakes that came to nothing, those that made way for younger ones included.

    A silent client holds a place for ``handshake_s`` at most, and while others come no longer than they need: where all
    places are taken the oldest makes way, which an honest client's, done in a moment, hardly ever is.
    """

    def __init__(
        self, certificate: ServerCertificate, limits: ConnectionLimits, connection: Callable[[], Connection]
    ) -> None:
        self.failed = 0
        self.closing = False
        self._certificate = certificate
        self._limits = limits
        self._connection = connection
        self._running: dict[Handshake, None] = {}

    def __len__(self) -> int:
        return len(self._running)

    def protocol(self) -> Handshake:
        """For a socket that was just accepted."""
        return Handshake(self, self._limits.handshake_s)

    def stop(self) -> None:
        self.closing = True
        for handshake in tuple(self._running):
            handshake.abort()

    def began(self, handshake: Handshake) -> None:
        if self.closing:
            handshake.abort()
            return
        if len(self._running) >= self._limits.handshakes:
            next(iter(self._running)).abort()
        self._running[handshake] = None

    def ended(self, handshake: Handshake) -> None:
        self._running.pop(handshake, None)

    async def shake(self, handshake: Handshake, transport: asyncio.Transport, hello: bytes, left_s: float) -> None:
        """From a client's first bytes to its connection, in what is left of its time."""
        loop = asyncio.get_running_loop()
        doorstep = Doorstep()
        try:
            starting = loop.create_task(
                loop.start_tls(
                    transport,
                    doorstep,
                    self._certificate.context,
                    server_side=True,
                    ssl_handshake_timeout=left_s,
                    ssl_shutdown_timeout=_CLOSE_S,
                )
            )
            # The task's first step has the loop call whoever reads from now on, then read on. In between belongs what
            # was read already: this is called after that step, and has the loop call ``_feed`` after those two.
            loop.call_soon(loop.call_soon, _feed, transport, hello)
            secure = await starting
        except (OSError, asyncio.CancelledError):
            # Also what is no TLS at all, and a client that does not trust us.
            self.failed += 1
            transport.abort()
            return
        except Exception:
            self.failed += 1
            log.exception("a TLS handshake broke")
            transport.abort()
            return
        finally:
            self.ended(handshake)
        if secure is None or secure.is_closing() or self.closing:
            self.failed += 1
            transport.abort()
            return
        secure.set_write_buffer_limits(_BUFFER_BYTES)
        connection = self._connection()
        secure.set_protocol(connection)
        connection.connection_made(secure, transport)
        if doorstep.early and not secure.is_closing():
            connection.data_received(doorstep.early)


class Handshake(asyncio.Protocol):
    """The first owner of an accepted socket. Until its first bytes it costs no more than that."""

    def __init__(self, handshakes: Handshakes, patience_s: float) -> None:
        self._handshakes = handshakes
        self._patience_s = patience_s
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._timer = asyncio.get_running_loop().call_later(self._patience_s, self.abort)
        self._handshakes.began(self)

    def data_received(self, data: bytes) -> None:
        """The client's hello, or its beginning."""
        if self._task is not None or self._timer is None:
            return
        loop = asyncio.get_running_loop()
        left_s = max(self._timer.when() - loop.time(), 0.001)
        self._timer.cancel()
        self._transport.pause_reading()
        self._task = loop.create_task(self._handshakes.shake(self, self._transport, data, left_s))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def abort(self) -> None:
        if self._task is None:
            self._handshakes.failed += 1
        self._end()
        self._transport.abort()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._handshakes.ended(self)


class Doorstep(asyncio.Protocol):
    """Stands for a connection while there is none: a client's first request may come with the end of its handshake, a
    turn before we are told of that."""

    def __init__(self) -> None:
        self.early = b""

    def data_received(self, data: bytes) -> None:
        self.early += data


def _feed(transport: asyncio.Transport, data: bytes) -> None:
    """Give TLS the bytes that were read before it was there."""
    protocol = cast(asyncio.BufferedProtocol, transport.get_protocol())
    while data and not transport.is_closing():
        room = memoryview(protocol.get_buffer(len(data)))
        size = min(len(room), len(data))
        room[:size] = data[:size]
        protocol.buffer_updated(size)
        data = data[size:]
