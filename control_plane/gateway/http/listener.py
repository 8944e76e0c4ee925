"""The listening socket and all connections that came in over it."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from email.utils import formatdate

from control_plane.contracts.errors import SettingsError
from control_plane.gateway.http.certificate import ServerCertificate
from control_plane.gateway.http.connection import Connection
from control_plane.gateway.http.handshakes import Handshakes
from control_plane.gateway.http.host import App, Guest
from control_plane.gateway.http.limits import ConnectionLimits

log = logging.getLogger(__name__)

_SWEEP_S = 0.5
_COMPLAIN_S = 10.0
_BACKLOG = 2048


def bind(host: str, port: int) -> socket.socket:
    """A socket that will listen on the address; port 0 takes any free one. Raises SettingsError if it cannot."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            sock.listen(_BACKLOG)
        except BaseException:
            sock.close()
            raise
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            param="gateway.port",
            hint="set [gateway] port to another one, or to 0 for any free one",
        ) from error
    sock.setblocking(False)
    return sock


class Listener:
    """Accepts connections, sweeps their deadlines, and lets them end.

    ``dropped`` counts connections that were ended at once because as many as there may be were open.
    """

    def __init__(
        self, app: App, sock: socket.socket, limits: ConnectionLimits, certificate: ServerCertificate | None = None
    ) -> None:
        self.app = app
        self.limits = limits
        self.closing = False
        self.connections: set[Guest] = set()
        self.now = time.monotonic()
        self.date = b""
        self.dropped = 0
        self._complained_at = -_COMPLAIN_S
        self._socket = sock
        self._held = 0
        self._server: asyncio.Server | None = None
        self.handshakes = Handshakes(certificate, limits, lambda: Connection(self)) if certificate is not None else None
        self._timer: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._empty.set()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep()
        accept = self.handshakes.protocol if self.handshakes is not None else lambda: Connection(self)
        self._server = await loop.create_server(accept, sock=self._socket, backlog=_BACKLOG)

    def stop_accepting(self) -> None:
        """No new connections; those that are open end with the response they are at."""
        self.closing = True
        if self._server is not None:
            self._server.close()
        if self.handshakes is not None:
            self.handshakes.stop()
        for connection in tuple(self.connections):
            connection.close_after()

    async def drained(self) -> None:
        """Return when no connection is open."""
        await self._empty.wait()

    async def stop(self) -> None:
        """Drop whatever is still open."""
        self.stop_accepting()
        for connection in tuple(self.connections):
            connection.abort()
        await self._empty.wait()
        if self._timer is not None:
            self._timer.cancel()

    def opened(self, connection: Guest) -> None:
        self.connections.add(connection)
        self._empty.clear()
        if len(self.connections) > self.limits.connections:
            self.dropped += 1
            self._complain()
            connection.abort()
        elif self.closing:
            connection.abort()

    def closed(self, connection: Guest) -> None:
        self.connections.discard(connection)
        if not self.connections:
            self._empty.set()

    def hold(self, size: int) -> bool:
        """Account for body bytes in memory; False when all bodies together have no room for them."""
        if self._held + size > self.limits.bodies_bytes:
            return False
        self._held += size
        return True

    def let_go(self, size: int) -> None:
        self._held -= size

    @property
    def held(self) -> int:
        """Bytes of request bodies in memory."""
        return self._held

    def _complain(self) -> None:
        now = time.monotonic()
        if now - self._complained_at >= _COMPLAIN_S:
            self._complained_at = now
            log.warning(
                "too many connections: new ones are dropped",
                extra={"limit": self.limits.connections, "dropped": self.dropped},
            )

    def _sweep(self) -> None:
        """A connection that fails here takes neither the others' deadlines nor the next sweep with it."""
        self._timer = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)
        self.now = now = time.monotonic()
        self.date = b"date: %b\r\n" % formatdate(usegmt=True).encode()
        for connection in tuple(self.connections):
            if connection.forsaken:
                connection.abort()
            elif connection.receive_deadline <= now or connection.output_due <= now:
                try:
                    connection.expired(now)
                except Exception:
                    log.exception("a connection whose time was up could not be ended")
                    connection.abort()
