"""The settings as typed values. Defaults stand here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from control_plane.contracts.addresses import MutualTls

BUILTIN_SOURCE = "builtin:smollm2-135m"

Gpus = tuple[int, ...] | Literal["auto"]


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Where callers reach the system. Port 0 takes any free one; the n-th replica listens on ``port`` + n - 1.

    HTTPS: ``tls_cert`` and ``tls_key`` are PEM files, read again when they change; or ``tls`` is "local", a certificate
    of the home's own authority. ``insecure``: plain HTTP also where others can listen. ``cors_origins``: web pages of
    these origins may call from a browser.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    replicas: int = 1
    tls: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    insecure: bool = False
    cors_origins: tuple[str, ...] = ()

    @property
    def https(self) -> bool:
        return bool(self.tls or self.tls_cert)


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Where operators and routers reach the control plane. Port 0 takes any free one."""

    host: str = "127.0.0.1"
    port: int = 8090


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """``mutual_tls``: whether gateways, routers, control plane and workers prove to each other who they are. "auto" is
    yes for what listens on an address that is not loopback."""

    mutual_tls: MutualTls = "auto"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """An SQLAlchemy URL; empty means an SQLite file in the home."""

    url: str = ""


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """``retries``: other workers and routers that a call may go on at when it loses its own. ``queue_timeout_s``: how
    long a call waits while no worker has shown its model's tokenizer yet, in seconds; for a worker after that, as long
    as its tier says.

    ``replicas``: routers that are processes of their own, which every gateway shares its calls out among; 0: each
    gateway has its router inside. ``host`` and ``port``: where these listen, for gateways; port 0 takes any free one,
    else the n-th listens on ``port`` + n - 1. ``metrics_port``: where their ``/metrics`` are, in the same way."""

    profile: str = "prefix_aware"
    retries: int = 2
    queue_timeout_s: float = 30.0
    replicas: int = 0
    host: str = "127.0.0.1"
    port: int = 0
    metrics_port: int = 0


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """``url``: the Valkey or Redis server that several gateways share their rate limits in, like
    ``valkey://127.0.0.1:6379/0``; empty means that each gateway counts for itself."""

    url: str = ""


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """``otlp_endpoint``: where OpenTelemetry spans of ended requests go, over HTTP, like
    ``http://127.0.0.1:4318/v1/traces``; empty means nowhere. ``otlp_steps``: with a span for every engine step of
    them, which their workers have to be asked for."""

    otlp_endpoint: str = ""
    otlp_steps: bool = False


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Workers that serve one model, all alike.

    ``kv_memory`` is bytes, 0 leaves the size to the engine; ``max_context`` is tokens, 0 means what the model allows.
    ``gpus`` are device indexes, ``tensor_parallel`` of them to each worker; empty means the CPU. ``dtype`` "auto" is
    the model's own, or float32 on a processor that would only emulate it. ``kv_events``: its workers tell which blocks
    their prefix caches hold. ``price_per_hour``: what one worker costs an hour, all of its GPUs, in whatever currency;
    0 is unknown. ``stall_timeout_s``: a worker whose engine has requests and makes no step for so many seconds is
    replaced, however well it answers; 0 never. The default is how long vLLM lets its own executors take for one step
    (``VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS`` in vllm/envs.py).
    """

    name: str = "smollm2"
    model: str = "smollm2-135m"
    source: str = BUILTIN_SOURCE
    engine: str = "vllm"
    replicas: int = 2
    dtype: str = "auto"
    max_context: int = 2048
    kv_memory: int = 512 * 1024 * 1024
    tensor_parallel: int = 1
    gpus: Gpus = ()
    threads: int = 1
    offline: bool = False
    kv_events: bool = True
    price_per_hour: float = 0.0
    stall_timeout_s: float = 300.0
    engine_args: dict[str, Any] = field(default_factory=lambda: {"max_num_seqs": 16, "max_num_batched_tokens": 512})

    @property
    def on_cpu(self) -> bool:
        return not self.gpus


@dataclass(frozen=True, slots=True)
class Settings:
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    api: ApiSettings = field(default_factory=ApiSettings)
    security: SecuritySettings = field(default_factory=SecuritySettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    router: RouterSettings = field(default_factory=RouterSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    pools: tuple[PoolSettings, ...] = (PoolSettings(),)
    path: Path | None = None
    """The file that was read, None where there was none."""
    written: Mapping[str, Mapping[str, str]] = field(default_factory=dict, compare=False, repr=False)
    """Where each pool's settings stand in it: FILE:LINE by the pool's name and the key, like ``engine_args.profile``;
    "" is the pool itself."""


@dataclass(frozen=True, slots=True)
class SettingSource:
    """One setting, its value, and who chose it: "default", "FILE:LINE", or the name of a variable or option."""

    key: str
    value: Any
    source: str
