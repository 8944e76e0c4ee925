"""What one connection may cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bytes, counts and seconds. A deadline for receiving is absolute: bytes that trickle in do not move it.

    ``head_s`` is for a request's head, and for the first byte on a new connection; ``receive_s`` for the whole request;
    ``idle_s`` between two requests; ``stall_s`` for a client that reads nothing while there is something to read, and
    it moves with every byte that is read; ``linger_s`` for a client that still sends when everything is out.
    ``handshake_s`` is for all of a TLS handshake; ``handshakes`` go on at a time, and the oldest makes way.
    """

    head_bytes: int = 32 * 1024
    fields: int = 100
    body_bytes: int = 2 * 1024 * 1024
    bodies_bytes: int = 256 * 1024 * 1024
    pipelined: int = 8
    connections: int = 8192
    handshakes: int = 512
    handshake_s: float = 10.0
    head_s: float = 10.0
    receive_s: float = 30.0
    idle_s: float = 75.0
    stall_s: float = 60.0
    linger_s: float = 2.0
    linger_bytes: int = 8 * 1024 * 1024
