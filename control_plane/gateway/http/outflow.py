"""What a connection has written, and how its client takes it."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import sys
import termios
import time


class Outflow:
    """Writes to the transport. While watched it knows since when the client has taken nothing at all.

    ``carrier`` is the transport below it, where there is TLS. Bytes of both kinds are added up then: the sum says
    whether anything was taken, not how much.
    """

    __slots__ = ("_carrier", "_socket", "_stall_s", "_taken", "_taken_at", "_transport", "_written")

    def __init__(self, transport: asyncio.Transport, carrier: asyncio.Transport | None, stall_s: float) -> None:
        self._transport = transport
        self._carrier = carrier
        self._stall_s = stall_s
        self._written = self._taken = 0
        self._taken_at = 0.0
        self._socket = sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            # No TCP_USER_TIMEOUT: it would end a reader with a small window while it reads.

    def write(self, data: bytes) -> None:
        if data and not self._transport.is_closing():
            self._written += len(data)
            self._transport.write(data)

    @property
    def unsent(self) -> int:
        """Bytes that the kernel has not taken for the client yet."""
        waiting = self._transport.get_write_buffer_size()
        return waiting if self._carrier is None else waiting + self._carrier.get_write_buffer_size()

    @property
    def cut_off(self) -> bool:
        """What carries TLS closes by itself: the client's end of it is shut."""
        return self._carrier is not None and self._carrier.is_closing()

    def watch(self) -> None:
        """Count from now on what the client takes."""
        self._taken = self._written - self.unsent - self._on_its_way()
        self._taken_at = time.monotonic()

    def stalled(self, now: float) -> bool:
        """Whether nothing was taken for so long that the client is taken to have stopped; asked again and again."""
        taken = self._written - self.unsent - self._on_its_way()
        if taken != self._taken:
            self._taken, self._taken_at = taken, now
        return now - self._taken_at >= self._stall_s

    def _on_its_way(self) -> int:
        """Bytes that the kernel has and the client's has not acknowledged.

        A slow reader empties what may be megabytes of them before the kernel takes the next ones.
        """
        if self._socket is None:
            return 0
        count = bytearray(4)
        try:
            fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, count)
        except (OSError, ValueError):
            return 0
        return int.from_bytes(count, sys.byteorder)
