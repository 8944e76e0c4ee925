"""TLS handshakes that are under way: bounded in time and in number, and no connection until they are done."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from control_plane.gateway.http.certificate import ServerCertificate
from control_plane.gateway.http.limits import Limits

if TYPE_CHECKING:
    from control_plane.gateway.http.connection import Connection

log = logging.getLogger(__name__)

_CLOSE_S = 3600.0
"""The loop's own patience with a client that does not answer our close; the connection's is shorter, and knows whether
the client still reads."""


class Handshakes:
    """``failed`` counts handshakes that came to nothing; ``evicted`` those that made way for younger ones.

    A silent client holds a place for ``handshake_s`` at most, and while others come no longer than they need: where all
    places are taken the oldest makes way, which an honest client's, done in a moment, hardly ever is.
    """

    def __init__(self, certificate: ServerCertificate, limits: Limits, connection: Callable[[], Connection]) -> None:
        self.failed = self.evicted = 0
        self.closing = False
        self._certificate = certificate
        self._limits = limits
        self._connection = connection
        self._running: dict[Handshake, None] = {}

    def __len__(self) -> int:
        return len(self._running)

    def protocol(self) -> Handshake:
        """For a socket that was just accepted."""
        return Handshake(self)

    def stop(self) -> None:
        self.closing = True
        for handshake in tuple(self._running):
            handshake.abort()

    def began(self, handshake: Handshake) -> None:
        if self.closing:
            handshake.abort()
            return
        if len(self._running) >= self._limits.handshakes:
            self.evicted += 1
            next(iter(self._running)).abort()
        self._running[handshake] = None

    def ended(self, handshake: Handshake) -> None:
        self._running.pop(handshake, None)

    async def shake(self, handshake: Handshake, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        connection = self._connection()
        try:
            secure = await loop.start_tls(
                transport,
                connection,
                self._certificate.context,
                server_side=True,
                ssl_handshake_timeout=self._limits.handshake_s,
                ssl_shutdown_timeout=_CLOSE_S,
            )
        except (OSError, asyncio.CancelledError) as error:
            # Also what is no TLS at all, and a client that does not trust us.
            self.failed += 1
            transport.abort()
            if isinstance(error, ssl.SSLError) and error.reason not in _COMMON:
                log.debug("a TLS handshake failed", extra={"reason": error.reason})
            return
        except Exception:
            log.exception("a TLS handshake broke")
            transport.abort()
            return
        finally:
            self.ended(handshake)
        if secure is None or self.closing:
            transport.abort()
            return
        connection.secured(secure, transport)


class Handshake(asyncio.Protocol):
    """The first owner of an accepted socket: it reads nothing, and hands over."""

    def __init__(self, handshakes: Handshakes) -> None:
        self._handshakes = handshakes
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.pause_reading()
        self._handshakes.began(self)
        if not self._transport.is_closing():
            self._task = asyncio.get_running_loop().create_task(self._handshakes.shake(self, self._transport))

    def connection_lost(self, exc: Exception | None) -> None:
        self._handshakes.ended(self)

    def abort(self) -> None:
        self._handshakes.ended(self)
        if self._transport is not None:
            self._transport.abort()


_COMMON = frozenset(("HTTP_REQUEST", "WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING"))
