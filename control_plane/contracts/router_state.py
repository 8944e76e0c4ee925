"""How a router sees its endpoints now, for whoever asks it.

Field names equal those of ``v1/routing.proto``, which documents each of them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SeenEndpoint:
    worker_id: str
    instance_id: str
    model: str
    ready: bool = False
    connected: bool = False
    cordoned: bool = False
    requests: int = 0
    sequences: int = 0
    tokens: float = 0.0
    others: int = 0
    kv_usage: float = 0.0
    sample_age_s: float = -1.0
    failures: int = 0
    refusing_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RoutedGateway:
    id: str
    in_flight: int


@dataclass(frozen=True, slots=True)
class RouterState:
    router_id: str
    pid: int = 0
    started_unix: float = 0.0
    profile: str = ""
    queued: int = 0
    draining: bool = False
    gateways: tuple[RoutedGateway, ...] = ()
    endpoints: tuple[SeenEndpoint, ...] = ()
    metrics_url: str = ""
