"""What a gateway is told at its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from control_plane.gateway.http.limits import ConnectionLimits
from control_plane.gateway.limits.book import MINUTE_S
from control_plane.gateway.limits.shared import TIMEOUT_S


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """``wait_s`` is how long a call waits for its model's first worker, in seconds; as the router's queue timeout.
    ``limit_store`` is the URL of the server that several gateways share their rate limits in, empty for one gateway;
    ``limit_gateways`` how many of them there are at least (the server knows of others), ``limit_timeout_s`` how long it
    may take for an answer, ``limit_window_s`` what a minute is, in seconds.

    ``certificate`` and ``key`` are PEM files for HTTPS, perhaps one and the same; without them it is plain HTTP.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    wait_s: float = 30.0
    certificate: Path | None = None
    key: Path | None = None
    cors_origins: tuple[str, ...] = ()
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    limit_store: str = ""
    limit_gateways: int = 1
    limit_timeout_s: float = TIMEOUT_S
    limit_window_s: float = MINUTE_S
