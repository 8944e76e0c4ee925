"""What a gateway is told at its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from control_plane.gateway.http.limits import Limits


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """``wait_s`` is how long a call waits for its model's first worker, in seconds; as the router's queue timeout.

    ``certificate`` and ``key`` are PEM files for HTTPS, perhaps one and the same; without them it is plain HTTP.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    wait_s: float = 30.0
    certificate: Path | None = None
    key: Path | None = None
    cors_origins: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
