"""What a gateway is told at its start."""

from __future__ import annotations

from dataclasses import dataclass, field

from control_plane.gateway.http.limits import Limits


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """``wait_s`` is how long a call waits for its model's first worker, in seconds; as the router's queue timeout."""

    host: str = "127.0.0.1"
    port: int = 8080
    wait_s: float = 30.0
    limits: Limits = field(default_factory=Limits)
