"""``/metrics`` of a router that is a process of its own: what it counts, over HTTP, and nothing else.

Where anybody but this machine could come, it is HTTPS, and whoever asks shows an operator's certificate.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from control_plane.contracts.errors import SettingsError
from control_plane.contracts.identity import Peer, peers_in, server_context
from control_plane.tasks import Tasks

PATH: Final = "/metrics"
READERS: Final = frozenset({Peer.OPERATOR, Peer.CONTROL_PLANE})
"""Whose certificates open it."""

_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LONGEST: Final = 16_384
_PATIENCE_S: Final = 10.0
_RENEWED_S: Final = 10.0

_log = logging.getLogger(__name__)


class MetricsServer:
    """One answer a connection. ``credentials`` is the file by which the router proves who it is; empty: plain HTTP.
    ``registry`` is read on the event loop that ``start`` runs on. ``url`` is empty until it listens."""

    def __init__(self, registry: CollectorRegistry, credentials: str = "") -> None:
        self.url = ""
        self._registry = registry
        self._credentials = Path(credentials) if credentials else None
        self._server: asyncio.Server | None = None
        self._tasks = Tasks()

    async def start(self, host: str, port: int) -> None:
        """Port 0 is any. Raises SettingsError where it cannot be had, or the credentials cannot be read."""
        context = server_context(self._credentials) if self._credentials is not None else None
        try:
            self._server = await asyncio.start_server(
                self._connected, host, port, limit=_LONGEST, ssl=context, reuse_address=True
            )
        except OSError as error:
            raise SettingsError(
                f"router.metrics_port: cannot listen on {host}:{port}: {error.strerror or error}",
                param="router.metrics_port",
                hint="set metrics_port in [router] of the config file; 0 takes any free one",
            ) from None
        bound = self._server.sockets[0].getsockname()[1]
        name = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if context is not None else 'http'}://{name}:{bound}{PATH}"
        if context is not None:
            self._tasks.keep(lambda: self._renew(context), "certificate of /metrics")

    async def stop(self) -> None:
        """Idempotent."""
        await self._tasks.cancel()
        if self._server is not None:
            self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head, self._may_read(writer)))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever it was does not speak HTTP, or is gone
        finally:
            writer.close()

    def _may_read(self, writer: asyncio.StreamWriter) -> bool:
        if self._credentials is None:
            return True
        shown = writer.get_extra_info("peercert") or {}
        return bool(peers_in([name for _, name in shown.get("subjectAltName", ())]) & READERS)

    def _answer(self, head: bytes, may_read: bool) -> bytes:
        method, _, rest = head.decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if not may_read:
            return _response("403 Forbidden", b"an operator's certificate is needed\n", method)
        if path != PATH:
            return _response("404 Not Found", b"there is /metrics\n", method)
        if method not in ("GET", "HEAD"):
            return _response("405 Method Not Allowed", b"GET or HEAD\n", method, "Allow: GET, HEAD\r\n")
        return _response("200 OK", generate_latest(self._registry), method)

    async def _renew(self, context: ssl.SSLContext) -> None:
        """Take over a certificate that was renewed on disk; connections that are open keep theirs."""
        assert self._credentials is not None
        seen = self._credentials.stat().st_mtime_ns
        while True:
            await asyncio.sleep(_RENEWED_S)
            try:
                if (now := self._credentials.stat().st_mtime_ns) != seen:
                    context.load_cert_chain(self._credentials)
                    seen = now
            except OSError as error:  # an ssl.SSLError is one
                _log.warning("the last certificate of /metrics stays in use: %s", error)


def _response(status: str, body: bytes, method: str, more: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {_TYPE}\r\nContent-Length: {len(body)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == "HEAD" else body)
