"""The fleet as operators and routers see it, as plain values.

Field names equal those of ``v1/operator.proto``, which documents each of them; ``wire`` converts both ways.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final

from control_plane.contracts.decision import DecisionAnswer
from control_plane.contracts.hold import Hold
from control_plane.contracts.kv_belief import KvBelief
from control_plane.contracts.model_choice import ModelChoice
from control_plane.contracts.pressure import Pressure
from control_plane.contracts.worker import Load, WorkerInfo

MOST_ENDED: Final = 500
"""Ended requests that the fleet remembers, of all gateways together."""


class WorkerPhase(Enum):
    UNSPECIFIED = 0
    STARTING = 1
    READY = 2
    LOST = 3
    FAILED = 4
    STOPPING = 5
    ASLEEP = 6


class RequestPhase(Enum):
    UNSPECIFIED = 0
    QUEUED = 1
    DISPATCHED = 2
    DECODING = 3
    FINISHED = 4
    CANCELLED = 5
    FAILED = 6

    @property
    def active(self) -> bool:
        return self in (RequestPhase.QUEUED, RequestPhase.DISPATCHED, RequestPhase.DECODING)


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    model: str
    engine: str
    desired: int
    ready: int = 0
    observed: int = 0
    source: str = ""
    price_per_hour: float = 0.0
    band: str = ""
    saturation: float | None = None
    sample_age_s: float = 0.0
    queued: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Latency:
    """Quantiles over the last ``window_s`` seconds, in seconds; a count of 0 means that there are none."""

    window_s: float = 0.0
    ttft_count: int = 0
    ttft_p50: float = 0.0
    ttft_p99: float = 0.0
    itl_count: int = 0
    itl_p50: float = 0.0
    itl_p99: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkerView:
    id: str
    pool: str
    phase: WorkerPhase
    reason: str = ""
    cordoned: bool = False
    draining: bool = False
    address: str = ""
    pid: int = 0
    engine_pid: int = 0
    restarts: int = 0
    restart_unix: float = 0.0
    phase_since_unix: float = 0.0
    heartbeat_unix: float = 0.0
    info: WorkerInfo | None = None
    load: Load | None = None
    in_flight: int = 0
    latency: Latency | None = None
    log_path: str = ""
    refuses_settings: bool = False
    kv_beliefs: tuple[KvBelief, ...] = ()

    @property
    def idle(self) -> bool:
        """Whether nothing runs or waits on it, by the routers' count and its own. Of one that is lost nobody knows."""
        if self.in_flight or self.phase is WorkerPhase.LOST:
            return False
        if self.phase in (WorkerPhase.READY, WorkerPhase.STOPPING, WorkerPhase.ASLEEP):
            return self.load is not None and not self.load.running and not self.load.waiting
        return self.phase in (WorkerPhase.STARTING, WorkerPhase.FAILED)

    @property
    def drained(self) -> bool:
        """Whether it was told to drain, and has nothing left. It stays cordoned."""
        return self.draining and self.idle


@dataclass(frozen=True, slots=True)
class GatewayView:
    id: str
    pid: int
    url: str
    ready: bool
    started_unix: float = 0.0
    report_unix: float = 0.0
    in_flight: int = 0
    queued: int = 0
    requests_total: int = 0
    responses: dict[int, int] = field(default_factory=dict)
    latency: Latency | None = None
    tokens_per_s: float = 0.0
    rss_bytes: int = 0
    cpu_s: float = 0.0
    reserved_tokens: int = 0
    limit_store: str = ""
    lost: bool = False


@dataclass(frozen=True, slots=True)
class RouterView:
    """A router that is a process of its own."""

    id: str
    pid: int
    address: str
    ready: bool
    started_unix: float = 0.0
    report_unix: float = 0.0
    in_flight: int = 0
    queued: int = 0
    requests_total: int = 0
    latency: Latency | None = None
    tokens_per_s: float = 0.0
    rss_bytes: int = 0
    cpu_s: float = 0.0
    draining: bool = False
    lost: bool = False


@dataclass(frozen=True, slots=True)
class ModelView:
    name: str
    pool: str
    source: str = ""
    max_context: int = 0
    ready_workers: int = 0
    engine: str = ""
    price_per_hour: float = 0.0
    kind: str = ""
    leads_to: str = ""
    targets: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stage:
    """One stretch of a request's life: ``start_s`` after arrival, ``duration_s`` long. ``worker_id``: whose it was, of
    an attempt that came to nothing."""

    name: str
    start_s: float
    duration_s: float
    worker_id: str = ""


@dataclass(frozen=True, slots=True)
class RequestView:
    id: str
    gateway_id: str
    model: str
    phase: RequestPhase
    worker_id: str = ""
    key_id: str = ""
    reason: str = ""
    stream: bool = False
    arrival_unix: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    max_tokens: int = 0
    ttft_s: float = 0.0
    itl_p50_s: float = 0.0
    duration_s: float = 0.0
    retries: int = 0
    stages: tuple[Stage, ...] = ()
    api: str = ""
    traceparent: str = ""
    predicted_cached_tokens: int | None = None
    router_id: str = ""
    choice: ModelChoice | None = None
    worker_s: float = 0.0
    cost: float = 0.0
    tier: str = ""
    preemptions: int = 0
    holds: tuple[Hold, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    seq: int
    at_unix: float
    kind: str
    subject: str
    message: str
    severity: str = "info"


@dataclass(frozen=True, slots=True)
class Snapshot:
    revision: int
    taken_unix: float
    control_plane_id: str
    version: str
    pools: tuple[Pool, ...] = ()
    workers: tuple[WorkerView, ...] = ()
    gateways: tuple[GatewayView, ...] = ()
    requests: tuple[RequestView, ...] = ()
    models: tuple[ModelView, ...] = ()
    events: tuple[Event, ...] = ()
    routers: tuple[RouterView, ...] = ()


@dataclass(frozen=True, slots=True)
class ActionResult:
    changed: bool
    message: str
    affected: tuple[str, ...] = ()
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class DrainProgress:
    worker_id: str
    in_flight: int
    request_ids: tuple[str, ...] = ()
    done: bool = False
    timed_out: bool = False
    message: str = ""


@dataclass(frozen=True, slots=True)
class ShutdownProgress:
    message: str
    done: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What a router may pick. ``secure``: it speaks mutual TLS."""

    worker_id: str
    instance_id: str
    address: str
    pool: str
    model: str
    phase: WorkerPhase
    cordoned: bool = False
    info: WorkerInfo | None = None
    load: Load | None = None
    load_age_s: float = 0.0
    secure: bool = False


@dataclass(frozen=True, slots=True)
class EndpointSet:
    revision: int
    endpoints: tuple[Endpoint, ...] = ()
    models: tuple[ModelView, ...] = ()


@dataclass(frozen=True, slots=True)
class RouterEndpoint:
    """A router that gateways may ask. ``secure``: it speaks mutual TLS."""

    id: str
    address: str
    secure: bool = False


@dataclass(frozen=True, slots=True)
class RouterSet:
    revision: int
    routers: tuple[RouterEndpoint, ...] = ()


class Member(StrEnum):
    """What joins the fleet: a gateway with its router inside, one that asks routers, or a router."""

    GATEWAY = ""
    FRONT = "front"
    ROUTER = "router"


@dataclass(frozen=True, slots=True)
class GatewayIdentity:
    """Who has joined. ``url`` is HOST:PORT of a router. ``kind`` is a ``Member``; ``secure``: see ``Endpoint``."""

    id: str
    pid: int
    url: str
    started_unix: float
    kind: str = Member.GATEWAY
    secure: bool = False


@dataclass(frozen=True, slots=True)
class GatewayStats:
    ready: bool = False
    in_flight: int = 0
    queued: int = 0
    requests_total: int = 0
    responses: dict[int, int] = field(default_factory=dict)
    output_tokens_total: int = 0
    rss_bytes: int = 0
    cpu_s: float = 0.0
    reserved_tokens: int = 0
    limit_store: str = ""
    draining: bool = False
    pressures: tuple[Pressure, ...] = ()


@dataclass(frozen=True, slots=True)
class Histogram:
    """Wire form of ``contracts.histogram.LatencyHistogram``: bucket index → count."""

    buckets: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CancelOutcome:
    request_id: str
    found: bool
    already_ended: bool = False


@dataclass(frozen=True, slots=True)
class RouterReport:
    identity: GatewayIdentity | None = None
    active: tuple[RequestView, ...] = ()
    ended: tuple[RequestView, ...] = ()
    stats: GatewayStats | None = None
    ttft: dict[str, Histogram] = field(default_factory=dict)
    itl: dict[str, Histogram] = field(default_factory=dict)
    cancels: tuple[CancelOutcome, ...] = ()
    answers: tuple[DecisionAnswer, ...] = ()
    kv_beliefs: tuple[KvBelief, ...] = ()
