from control_plane.contracts.v1 import decision_pb2 as _decision_pb2
from control_plane.contracts.v1 import routing_pb2 as _routing_pb2
from control_plane.contracts.v1 import worker_pb2 as _worker_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WorkerPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WORKER_PHASE_UNSPECIFIED: _ClassVar[WorkerPhase]
    WORKER_PHASE_STARTING: _ClassVar[WorkerPhase]
    WORKER_PHASE_READY: _ClassVar[WorkerPhase]
    WORKER_PHASE_LOST: _ClassVar[WorkerPhase]
    WORKER_PHASE_FAILED: _ClassVar[WorkerPhase]
    WORKER_PHASE_STOPPING: _ClassVar[WorkerPhase]
    WORKER_PHASE_ASLEEP: _ClassVar[WorkerPhase]

class RequestPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REQUEST_PHASE_UNSPECIFIED: _ClassVar[RequestPhase]
    REQUEST_PHASE_QUEUED: _ClassVar[RequestPhase]
    REQUEST_PHASE_DISPATCHED: _ClassVar[RequestPhase]
    REQUEST_PHASE_DECODING: _ClassVar[RequestPhase]
    REQUEST_PHASE_FINISHED: _ClassVar[RequestPhase]
    REQUEST_PHASE_CANCELLED: _ClassVar[RequestPhase]
    REQUEST_PHASE_FAILED: _ClassVar[RequestPhase]
WORKER_PHASE_UNSPECIFIED: WorkerPhase
WORKER_PHASE_STARTING: WorkerPhase
WORKER_PHASE_READY: WorkerPhase
WORKER_PHASE_LOST: WorkerPhase
WORKER_PHASE_FAILED: WorkerPhase
WORKER_PHASE_STOPPING: WorkerPhase
WORKER_PHASE_ASLEEP: WorkerPhase
REQUEST_PHASE_UNSPECIFIED: RequestPhase
REQUEST_PHASE_QUEUED: RequestPhase
REQUEST_PHASE_DISPATCHED: RequestPhase
REQUEST_PHASE_DECODING: RequestPhase
REQUEST_PHASE_FINISHED: RequestPhase
REQUEST_PHASE_CANCELLED: RequestPhase
REQUEST_PHASE_FAILED: RequestPhase

class GetSnapshotRequest(_message.Message):
    __slots__ = ("finished_requests",)
    FINISHED_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    finished_requests: bool
    def __init__(self, finished_requests: _Optional[bool] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("interval_s", "finished_requests")
    INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    FINISHED_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    interval_s: float
    finished_requests: bool
    def __init__(self, interval_s: _Optional[float] = ..., finished_requests: _Optional[bool] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("revision", "taken_unix", "control_plane_id", "version", "pools", "workers", "gateways", "requests", "models", "events", "routers")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TAKEN_UNIX_FIELD_NUMBER: _ClassVar[int]
    CONTROL_PLANE_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    GATEWAYS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    ROUTERS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    taken_unix: float
    control_plane_id: str
    version: str
    pools: _containers.RepeatedCompositeFieldContainer[Pool]
    workers: _containers.RepeatedCompositeFieldContainer[WorkerView]
    gateways: _containers.RepeatedCompositeFieldContainer[GatewayView]
    requests: _containers.RepeatedCompositeFieldContainer[RequestView]
    models: _containers.RepeatedCompositeFieldContainer[ModelView]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    routers: _containers.RepeatedCompositeFieldContainer[RouterView]
    def __init__(self, revision: _Optional[int] = ..., taken_unix: _Optional[float] = ..., control_plane_id: _Optional[str] = ..., version: _Optional[str] = ..., pools: _Optional[_Iterable[_Union[Pool, _Mapping]]] = ..., workers: _Optional[_Iterable[_Union[WorkerView, _Mapping]]] = ..., gateways: _Optional[_Iterable[_Union[GatewayView, _Mapping]]] = ..., requests: _Optional[_Iterable[_Union[RequestView, _Mapping]]] = ..., models: _Optional[_Iterable[_Union[ModelView, _Mapping]]] = ..., events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., routers: _Optional[_Iterable[_Union[RouterView, _Mapping]]] = ...) -> None: ...

class Pool(_message.Message):
    __slots__ = ("name", "model", "engine", "desired", "ready", "observed", "source", "price_per_hour", "band", "saturation", "sample_age_s", "queued")
    class QueuedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    DESIRED_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PRICE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    BAND_FIELD_NUMBER: _ClassVar[int]
    SATURATION_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_AGE_S_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    name: str
    model: str
    engine: str
    desired: int
    ready: int
    observed: int
    source: str
    price_per_hour: float
    band: str
    saturation: float
    sample_age_s: float
    queued: _containers.ScalarMap[str, int]
    def __init__(self, name: _Optional[str] = ..., model: _Optional[str] = ..., engine: _Optional[str] = ..., desired: _Optional[int] = ..., ready: _Optional[int] = ..., observed: _Optional[int] = ..., source: _Optional[str] = ..., price_per_hour: _Optional[float] = ..., band: _Optional[str] = ..., saturation: _Optional[float] = ..., sample_age_s: _Optional[float] = ..., queued: _Optional[_Mapping[str, int]] = ...) -> None: ...

class WorkerView(_message.Message):
    __slots__ = ("id", "pool", "phase", "reason", "cordoned", "draining", "address", "pid", "engine_pid", "restarts", "restart_unix", "phase_since_unix", "heartbeat_unix", "info", "load", "in_flight", "latency", "log_path", "refuses_settings", "kv_beliefs")
    ID_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CORDONED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    ENGINE_PID_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    RESTART_UNIX_FIELD_NUMBER: _ClassVar[int]
    PHASE_SINCE_UNIX_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_UNIX_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    LATENCY_FIELD_NUMBER: _ClassVar[int]
    LOG_PATH_FIELD_NUMBER: _ClassVar[int]
    REFUSES_SETTINGS_FIELD_NUMBER: _ClassVar[int]
    KV_BELIEFS_FIELD_NUMBER: _ClassVar[int]
    id: str
    pool: str
    phase: WorkerPhase
    reason: str
    cordoned: bool
    draining: bool
    address: str
    pid: int
    engine_pid: int
    restarts: int
    restart_unix: float
    phase_since_unix: float
    heartbeat_unix: float
    info: _worker_pb2.WorkerInfo
    load: _worker_pb2.Load
    in_flight: int
    latency: Latency
    log_path: str
    refuses_settings: bool
    kv_beliefs: _containers.RepeatedCompositeFieldContainer[KvBelief]
    def __init__(self, id: _Optional[str] = ..., pool: _Optional[str] = ..., phase: _Optional[_Union[WorkerPhase, str]] = ..., reason: _Optional[str] = ..., cordoned: _Optional[bool] = ..., draining: _Optional[bool] = ..., address: _Optional[str] = ..., pid: _Optional[int] = ..., engine_pid: _Optional[int] = ..., restarts: _Optional[int] = ..., restart_unix: _Optional[float] = ..., phase_since_unix: _Optional[float] = ..., heartbeat_unix: _Optional[float] = ..., info: _Optional[_Union[_worker_pb2.WorkerInfo, _Mapping]] = ..., load: _Optional[_Union[_worker_pb2.Load, _Mapping]] = ..., in_flight: _Optional[int] = ..., latency: _Optional[_Union[Latency, _Mapping]] = ..., log_path: _Optional[str] = ..., refuses_settings: _Optional[bool] = ..., kv_beliefs: _Optional[_Iterable[_Union[KvBelief, _Mapping]]] = ...) -> None: ...

class KvBelief(_message.Message):
    __slots__ = ("gateway_id", "worker_id", "instance_id", "blocks", "told", "seq", "gaps", "lost", "heard_unix", "unavailable")
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    HEARD_UNIX_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    gateway_id: str
    worker_id: str
    instance_id: str
    blocks: int
    told: bool
    seq: int
    gaps: int
    lost: int
    heard_unix: float
    unavailable: str
    def __init__(self, gateway_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., blocks: _Optional[int] = ..., told: _Optional[bool] = ..., seq: _Optional[int] = ..., gaps: _Optional[int] = ..., lost: _Optional[int] = ..., heard_unix: _Optional[float] = ..., unavailable: _Optional[str] = ...) -> None: ...

class Latency(_message.Message):
    __slots__ = ("window_s", "ttft_count", "ttft_p50", "ttft_p99", "itl_count", "itl_p50", "itl_p99")
    WINDOW_S_FIELD_NUMBER: _ClassVar[int]
    TTFT_COUNT_FIELD_NUMBER: _ClassVar[int]
    TTFT_P50_FIELD_NUMBER: _ClassVar[int]
    TTFT_P99_FIELD_NUMBER: _ClassVar[int]
    ITL_COUNT_FIELD_NUMBER: _ClassVar[int]
    ITL_P50_FIELD_NUMBER: _ClassVar[int]
    ITL_P99_FIELD_NUMBER: _ClassVar[int]
    window_s: float
    ttft_count: int
    ttft_p50: float
    ttft_p99: float
    itl_count: int
    itl_p50: float
    itl_p99: float
    def __init__(self, window_s: _Optional[float] = ..., ttft_count: _Optional[int] = ..., ttft_p50: _Optional[float] = ..., ttft_p99: _Optional[float] = ..., itl_count: _Optional[int] = ..., itl_p50: _Optional[float] = ..., itl_p99: _Optional[float] = ...) -> None: ...

class GatewayView(_message.Message):
    __slots__ = ("id", "pid", "url", "ready", "started_unix", "report_unix", "in_flight", "queued", "requests_total", "responses", "latency", "tokens_per_s", "rss_bytes", "cpu_s", "reserved_tokens", "limit_store", "lost")
    class ResponsesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_FIELD_NUMBER: _ClassVar[int]
    REPORT_UNIX_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    LATENCY_FIELD_NUMBER: _ClassVar[int]
    TOKENS_PER_S_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    RESERVED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_STORE_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    id: str
    pid: int
    url: str
    ready: bool
    started_unix: float
    report_unix: float
    in_flight: int
    queued: int
    requests_total: int
    responses: _containers.ScalarMap[int, int]
    latency: Latency
    tokens_per_s: float
    rss_bytes: int
    cpu_s: float
    reserved_tokens: int
    limit_store: str
    lost: bool
    def __init__(self, id: _Optional[str] = ..., pid: _Optional[int] = ..., url: _Optional[str] = ..., ready: _Optional[bool] = ..., started_unix: _Optional[float] = ..., report_unix: _Optional[float] = ..., in_flight: _Optional[int] = ..., queued: _Optional[int] = ..., requests_total: _Optional[int] = ..., responses: _Optional[_Mapping[int, int]] = ..., latency: _Optional[_Union[Latency, _Mapping]] = ..., tokens_per_s: _Optional[float] = ..., rss_bytes: _Optional[int] = ..., cpu_s: _Optional[float] = ..., reserved_tokens: _Optional[int] = ..., limit_store: _Optional[str] = ..., lost: _Optional[bool] = ...) -> None: ...

class RouterView(_message.Message):
    __slots__ = ("id", "pid", "address", "ready", "started_unix", "report_unix", "in_flight", "queued", "requests_total", "latency", "tokens_per_s", "rss_bytes", "cpu_s", "draining", "lost")
    ID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_FIELD_NUMBER: _ClassVar[int]
    REPORT_UNIX_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    LATENCY_FIELD_NUMBER: _ClassVar[int]
    TOKENS_PER_S_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    id: str
    pid: int
    address: str
    ready: bool
    started_unix: float
    report_unix: float
    in_flight: int
    queued: int
    requests_total: int
    latency: Latency
    tokens_per_s: float
    rss_bytes: int
    cpu_s: float
    draining: bool
    lost: bool
    def __init__(self, id: _Optional[str] = ..., pid: _Optional[int] = ..., address: _Optional[str] = ..., ready: _Optional[bool] = ..., started_unix: _Optional[float] = ..., report_unix: _Optional[float] = ..., in_flight: _Optional[int] = ..., queued: _Optional[int] = ..., requests_total: _Optional[int] = ..., latency: _Optional[_Union[Latency, _Mapping]] = ..., tokens_per_s: _Optional[float] = ..., rss_bytes: _Optional[int] = ..., cpu_s: _Optional[float] = ..., draining: _Optional[bool] = ..., lost: _Optional[bool] = ...) -> None: ...

class ModelView(_message.Message):
    __slots__ = ("name", "pool", "source", "max_context", "ready_workers", "engine", "price_per_hour", "kind", "leads_to", "targets", "fallback")
    NAME_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    MAX_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    READY_WORKERS_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    PRICE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LEADS_TO_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_FIELD_NUMBER: _ClassVar[int]
    name: str
    pool: str
    source: str
    max_context: int
    ready_workers: int
    engine: str
    price_per_hour: float
    kind: str
    leads_to: str
    targets: _containers.RepeatedScalarFieldContainer[str]
    fallback: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., pool: _Optional[str] = ..., source: _Optional[str] = ..., max_context: _Optional[int] = ..., ready_workers: _Optional[int] = ..., engine: _Optional[str] = ..., price_per_hour: _Optional[float] = ..., kind: _Optional[str] = ..., leads_to: _Optional[str] = ..., targets: _Optional[_Iterable[str]] = ..., fallback: _Optional[_Iterable[str]] = ...) -> None: ...

class RequestView(_message.Message):
    __slots__ = ("id", "gateway_id", "worker_id", "model", "key_id", "phase", "reason", "stream", "arrival_unix", "prompt_tokens", "cached_tokens", "output_tokens", "max_tokens", "ttft_s", "itl_p50_s", "duration_s", "retries", "stages", "api", "traceparent", "predicted_cached_tokens", "router_id", "choice", "worker_s", "cost", "tier", "preemptions", "holds")
    ID_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_UNIX_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TTFT_S_FIELD_NUMBER: _ClassVar[int]
    ITL_P50_S_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    API_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ROUTER_ID_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    WORKER_S_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    id: str
    gateway_id: str
    worker_id: str
    model: str
    key_id: str
    phase: RequestPhase
    reason: str
    stream: bool
    arrival_unix: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    max_tokens: int
    ttft_s: float
    itl_p50_s: float
    duration_s: float
    retries: int
    stages: _containers.RepeatedCompositeFieldContainer[Stage]
    api: str
    traceparent: str
    predicted_cached_tokens: int
    router_id: str
    choice: ModelChoice
    worker_s: float
    cost: float
    tier: str
    preemptions: int
    holds: _containers.RepeatedCompositeFieldContainer[_decision_pb2.Hold]
    def __init__(self, id: _Optional[str] = ..., gateway_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., model: _Optional[str] = ..., key_id: _Optional[str] = ..., phase: _Optional[_Union[RequestPhase, str]] = ..., reason: _Optional[str] = ..., stream: _Optional[bool] = ..., arrival_unix: _Optional[float] = ..., prompt_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., max_tokens: _Optional[int] = ..., ttft_s: _Optional[float] = ..., itl_p50_s: _Optional[float] = ..., duration_s: _Optional[float] = ..., retries: _Optional[int] = ..., stages: _Optional[_Iterable[_Union[Stage, _Mapping]]] = ..., api: _Optional[str] = ..., traceparent: _Optional[str] = ..., predicted_cached_tokens: _Optional[int] = ..., router_id: _Optional[str] = ..., choice: _Optional[_Union[ModelChoice, _Mapping]] = ..., worker_s: _Optional[float] = ..., cost: _Optional[float] = ..., tier: _Optional[str] = ..., preemptions: _Optional[int] = ..., holds: _Optional[_Iterable[_Union[_decision_pb2.Hold, _Mapping]]] = ...) -> None: ...

class ModelChoice(_message.Message):
    __slots__ = ("asked", "model", "reason", "instead_of", "threshold", "score", "names")
    ASKED_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    INSTEAD_OF_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    asked: str
    model: str
    reason: str
    instead_of: str
    threshold: float
    score: Score
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, asked: _Optional[str] = ..., model: _Optional[str] = ..., reason: _Optional[str] = ..., instead_of: _Optional[str] = ..., threshold: _Optional[float] = ..., score: _Optional[_Union[Score, _Mapping]] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class Score(_message.Message):
    __slots__ = ("total", "parts")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    total: float
    parts: _containers.RepeatedCompositeFieldContainer[ScorePart]
    def __init__(self, total: _Optional[float] = ..., parts: _Optional[_Iterable[_Union[ScorePart, _Mapping]]] = ...) -> None: ...

class ScorePart(_message.Message):
    __slots__ = ("name", "value", "weight", "found")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: float
    weight: float
    found: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[float] = ..., weight: _Optional[float] = ..., found: _Optional[str] = ...) -> None: ...

class Stage(_message.Message):
    __slots__ = ("name", "start_s", "duration_s", "worker_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_S_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    start_s: float
    duration_s: float
    worker_id: str
    def __init__(self, name: _Optional[str] = ..., start_s: _Optional[float] = ..., duration_s: _Optional[float] = ..., worker_id: _Optional[str] = ...) -> None: ...

class WorkerRef(_message.Message):
    __slots__ = ("worker_id", "dry_run")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    dry_run: bool
    def __init__(self, worker_id: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class WorkerSleepRequest(_message.Message):
    __slots__ = ("worker_id", "level", "dry_run")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    level: int
    dry_run: bool
    def __init__(self, worker_id: _Optional[str] = ..., level: _Optional[int] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class RouterRef(_message.Message):
    __slots__ = ("router_id",)
    ROUTER_ID_FIELD_NUMBER: _ClassVar[int]
    router_id: str
    def __init__(self, router_id: _Optional[str] = ...) -> None: ...

class DrainWorkerRequest(_message.Message):
    __slots__ = ("worker_id", "timeout_s", "dry_run")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    timeout_s: float
    dry_run: bool
    def __init__(self, worker_id: _Optional[str] = ..., timeout_s: _Optional[float] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class DrainProgress(_message.Message):
    __slots__ = ("worker_id", "in_flight", "request_ids", "done", "timed_out", "message")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_IDS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    in_flight: int
    request_ids: _containers.RepeatedScalarFieldContainer[str]
    done: bool
    timed_out: bool
    message: str
    def __init__(self, worker_id: _Optional[str] = ..., in_flight: _Optional[int] = ..., request_ids: _Optional[_Iterable[str]] = ..., done: _Optional[bool] = ..., timed_out: _Optional[bool] = ..., message: _Optional[str] = ...) -> None: ...

class ScaleRequest(_message.Message):
    __slots__ = ("pool", "replicas", "dry_run")
    POOL_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    pool: str
    replicas: int
    dry_run: bool
    def __init__(self, pool: _Optional[str] = ..., replicas: _Optional[int] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class CancelRequestRequest(_message.Message):
    __slots__ = ("request_id", "dry_run")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    dry_run: bool
    def __init__(self, request_id: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class ActionResult(_message.Message):
    __slots__ = ("changed", "message", "affected", "in_flight")
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    AFFECTED_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    message: str
    affected: _containers.RepeatedScalarFieldContainer[str]
    in_flight: int
    def __init__(self, changed: _Optional[bool] = ..., message: _Optional[str] = ..., affected: _Optional[_Iterable[str]] = ..., in_flight: _Optional[int] = ...) -> None: ...

class LogsRequest(_message.Message):
    __slots__ = ("target", "tail_lines", "follow")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    TAIL_LINES_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    target: str
    tail_lines: int
    follow: bool
    def __init__(self, target: _Optional[str] = ..., tail_lines: _Optional[int] = ..., follow: _Optional[bool] = ...) -> None: ...

class LogChunk(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class EventsRequest(_message.Message):
    __slots__ = ("since", "follow")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    since: int
    follow: bool
    def __init__(self, since: _Optional[int] = ..., follow: _Optional[bool] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("seq", "at_unix", "kind", "subject", "message", "severity")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_UNIX_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    seq: int
    at_unix: float
    kind: str
    subject: str
    message: str
    severity: str
    def __init__(self, seq: _Optional[int] = ..., at_unix: _Optional[float] = ..., kind: _Optional[str] = ..., subject: _Optional[str] = ..., message: _Optional[str] = ..., severity: _Optional[str] = ...) -> None: ...

class ShutdownRequest(_message.Message):
    __slots__ = ("grace_s",)
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    grace_s: float
    def __init__(self, grace_s: _Optional[float] = ...) -> None: ...

class ShutdownProgress(_message.Message):
    __slots__ = ("message", "done")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    message: str
    done: bool
    def __init__(self, message: _Optional[str] = ..., done: _Optional[bool] = ...) -> None: ...

class RouterReport(_message.Message):
    __slots__ = ("identity", "active", "ended", "stats", "ttft", "itl", "cancels", "answers", "kv_beliefs")
    class TtftEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Histogram
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Histogram, _Mapping]] = ...) -> None: ...
    class ItlEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Histogram
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Histogram, _Mapping]] = ...) -> None: ...
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    TTFT_FIELD_NUMBER: _ClassVar[int]
    ITL_FIELD_NUMBER: _ClassVar[int]
    CANCELS_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    KV_BELIEFS_FIELD_NUMBER: _ClassVar[int]
    identity: GatewayIdentity
    active: _containers.RepeatedCompositeFieldContainer[RequestView]
    ended: _containers.RepeatedCompositeFieldContainer[RequestView]
    stats: GatewayStats
    ttft: _containers.MessageMap[str, Histogram]
    itl: _containers.MessageMap[str, Histogram]
    cancels: _containers.RepeatedCompositeFieldContainer[CancelOutcome]
    answers: _containers.RepeatedCompositeFieldContainer[_decision_pb2.DecisionAnswer]
    kv_beliefs: _containers.RepeatedCompositeFieldContainer[KvBelief]
    def __init__(self, identity: _Optional[_Union[GatewayIdentity, _Mapping]] = ..., active: _Optional[_Iterable[_Union[RequestView, _Mapping]]] = ..., ended: _Optional[_Iterable[_Union[RequestView, _Mapping]]] = ..., stats: _Optional[_Union[GatewayStats, _Mapping]] = ..., ttft: _Optional[_Mapping[str, Histogram]] = ..., itl: _Optional[_Mapping[str, Histogram]] = ..., cancels: _Optional[_Iterable[_Union[CancelOutcome, _Mapping]]] = ..., answers: _Optional[_Iterable[_Union[_decision_pb2.DecisionAnswer, _Mapping]]] = ..., kv_beliefs: _Optional[_Iterable[_Union[KvBelief, _Mapping]]] = ...) -> None: ...

class GatewayIdentity(_message.Message):
    __slots__ = ("id", "pid", "url", "started_unix", "kind", "secure")
    ID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SECURE_FIELD_NUMBER: _ClassVar[int]
    id: str
    pid: int
    url: str
    started_unix: float
    kind: str
    secure: bool
    def __init__(self, id: _Optional[str] = ..., pid: _Optional[int] = ..., url: _Optional[str] = ..., started_unix: _Optional[float] = ..., kind: _Optional[str] = ..., secure: _Optional[bool] = ...) -> None: ...

class GatewayStats(_message.Message):
    __slots__ = ("ready", "in_flight", "queued", "requests_total", "responses", "output_tokens_total", "rss_bytes", "cpu_s", "reserved_tokens", "limit_store", "draining", "pressures")
    class ResponsesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    READY_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    RESERVED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_STORE_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    PRESSURES_FIELD_NUMBER: _ClassVar[int]
    ready: bool
    in_flight: int
    queued: int
    requests_total: int
    responses: _containers.ScalarMap[int, int]
    output_tokens_total: int
    rss_bytes: int
    cpu_s: float
    reserved_tokens: int
    limit_store: str
    draining: bool
    pressures: _containers.RepeatedCompositeFieldContainer[Pressure]
    def __init__(self, ready: _Optional[bool] = ..., in_flight: _Optional[int] = ..., queued: _Optional[int] = ..., requests_total: _Optional[int] = ..., responses: _Optional[_Mapping[int, int]] = ..., output_tokens_total: _Optional[int] = ..., rss_bytes: _Optional[int] = ..., cpu_s: _Optional[float] = ..., reserved_tokens: _Optional[int] = ..., limit_store: _Optional[str] = ..., draining: _Optional[bool] = ..., pressures: _Optional[_Iterable[_Union[Pressure, _Mapping]]] = ...) -> None: ...

class Pressure(_message.Message):
    __slots__ = ("model", "band", "saturation", "usable", "stale", "sample_age_s", "queued")
    class QueuedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    MODEL_FIELD_NUMBER: _ClassVar[int]
    BAND_FIELD_NUMBER: _ClassVar[int]
    SATURATION_FIELD_NUMBER: _ClassVar[int]
    USABLE_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_AGE_S_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    model: str
    band: str
    saturation: float
    usable: int
    stale: int
    sample_age_s: float
    queued: _containers.ScalarMap[str, int]
    def __init__(self, model: _Optional[str] = ..., band: _Optional[str] = ..., saturation: _Optional[float] = ..., usable: _Optional[int] = ..., stale: _Optional[int] = ..., sample_age_s: _Optional[float] = ..., queued: _Optional[_Mapping[str, int]] = ...) -> None: ...

class Histogram(_message.Message):
    __slots__ = ("buckets",)
    class BucketsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    BUCKETS_FIELD_NUMBER: _ClassVar[int]
    buckets: _containers.ScalarMap[int, int]
    def __init__(self, buckets: _Optional[_Mapping[int, int]] = ...) -> None: ...

class CancelOutcome(_message.Message):
    __slots__ = ("request_id", "found", "already_ended")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    ALREADY_ENDED_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    found: bool
    already_ended: bool
    def __init__(self, request_id: _Optional[str] = ..., found: _Optional[bool] = ..., already_ended: _Optional[bool] = ...) -> None: ...

class FleetUpdate(_message.Message):
    __slots__ = ("endpoints", "cancel", "routing", "question", "routers")
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    ROUTING_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    ROUTERS_FIELD_NUMBER: _ClassVar[int]
    endpoints: EndpointSet
    cancel: CancelCommand
    routing: _routing_pb2.Routing
    question: _decision_pb2.DecisionQuestion
    routers: RouterSet
    def __init__(self, endpoints: _Optional[_Union[EndpointSet, _Mapping]] = ..., cancel: _Optional[_Union[CancelCommand, _Mapping]] = ..., routing: _Optional[_Union[_routing_pb2.Routing, _Mapping]] = ..., question: _Optional[_Union[_decision_pb2.DecisionQuestion, _Mapping]] = ..., routers: _Optional[_Union[RouterSet, _Mapping]] = ...) -> None: ...

class RouterSet(_message.Message):
    __slots__ = ("revision", "routers")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ROUTERS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    routers: _containers.RepeatedCompositeFieldContainer[RouterEndpoint]
    def __init__(self, revision: _Optional[int] = ..., routers: _Optional[_Iterable[_Union[RouterEndpoint, _Mapping]]] = ...) -> None: ...

class RouterEndpoint(_message.Message):
    __slots__ = ("id", "address", "secure")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SECURE_FIELD_NUMBER: _ClassVar[int]
    id: str
    address: str
    secure: bool
    def __init__(self, id: _Optional[str] = ..., address: _Optional[str] = ..., secure: _Optional[bool] = ...) -> None: ...

class EndpointSet(_message.Message):
    __slots__ = ("revision", "endpoints", "models")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    endpoints: _containers.RepeatedCompositeFieldContainer[Endpoint]
    models: _containers.RepeatedCompositeFieldContainer[ModelView]
    def __init__(self, revision: _Optional[int] = ..., endpoints: _Optional[_Iterable[_Union[Endpoint, _Mapping]]] = ..., models: _Optional[_Iterable[_Union[ModelView, _Mapping]]] = ...) -> None: ...

class Endpoint(_message.Message):
    __slots__ = ("worker_id", "instance_id", "address", "pool", "model", "phase", "cordoned", "info", "load", "load_age_s", "secure")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    CORDONED_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    LOAD_AGE_S_FIELD_NUMBER: _ClassVar[int]
    SECURE_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    instance_id: str
    address: str
    pool: str
    model: str
    phase: WorkerPhase
    cordoned: bool
    info: _worker_pb2.WorkerInfo
    load: _worker_pb2.Load
    load_age_s: float
    secure: bool
    def __init__(self, worker_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., address: _Optional[str] = ..., pool: _Optional[str] = ..., model: _Optional[str] = ..., phase: _Optional[_Union[WorkerPhase, str]] = ..., cordoned: _Optional[bool] = ..., info: _Optional[_Union[_worker_pb2.WorkerInfo, _Mapping]] = ..., load: _Optional[_Union[_worker_pb2.Load, _Mapping]] = ..., load_age_s: _Optional[float] = ..., secure: _Optional[bool] = ...) -> None: ...

class CancelCommand(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class WorkerStepsRequest(_message.Message):
    __slots__ = ("worker_id", "from_step", "live", "last_steps")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_STEP_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    LAST_STEPS_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    from_step: int
    live: bool
    last_steps: int
    def __init__(self, worker_id: _Optional[str] = ..., from_step: _Optional[int] = ..., live: _Optional[bool] = ..., last_steps: _Optional[int] = ...) -> None: ...

class WorkerTraceRequest(_message.Message):
    __slots__ = ("worker_id", "mode", "every", "dry_run")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    EVERY_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    mode: _worker_pb2.TraceMode
    every: int
    dry_run: bool
    def __init__(self, worker_id: _Optional[str] = ..., mode: _Optional[_Union[_worker_pb2.TraceMode, str]] = ..., every: _Optional[int] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class WorkerInjectRequest(_message.Message):
    __slots__ = ("worker_id", "failure", "heal", "dry_run")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    HEAL_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    failure: _worker_pb2.Failure
    heal: bool
    dry_run: bool
    def __init__(self, worker_id: _Optional[str] = ..., failure: _Optional[_Union[_worker_pb2.Failure, _Mapping]] = ..., heal: _Optional[bool] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class TimelineRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class Timeline(_message.Message):
    __slots__ = ("request", "spans", "clocks", "missing_steps")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    CLOCKS_FIELD_NUMBER: _ClassVar[int]
    MISSING_STEPS_FIELD_NUMBER: _ClassVar[int]
    request: RequestView
    spans: _containers.RepeatedCompositeFieldContainer[Span]
    clocks: _containers.RepeatedCompositeFieldContainer[ClockSkew]
    missing_steps: int
    def __init__(self, request: _Optional[_Union[RequestView, _Mapping]] = ..., spans: _Optional[_Iterable[_Union[Span, _Mapping]]] = ..., clocks: _Optional[_Iterable[_Union[ClockSkew, _Mapping]]] = ..., missing_steps: _Optional[int] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("name", "parent", "process", "start_s", "duration_s", "attributes")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    START_S_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    parent: str
    process: str
    start_s: float
    duration_s: float
    attributes: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., parent: _Optional[str] = ..., process: _Optional[str] = ..., start_s: _Optional[float] = ..., duration_s: _Optional[float] = ..., attributes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ClockSkew(_message.Message):
    __slots__ = ("process", "ahead_s", "uncertainty_s")
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    AHEAD_S_FIELD_NUMBER: _ClassVar[int]
    UNCERTAINTY_S_FIELD_NUMBER: _ClassVar[int]
    process: str
    ahead_s: float
    uncertainty_s: float
    def __init__(self, process: _Optional[str] = ..., ahead_s: _Optional[float] = ..., uncertainty_s: _Optional[float] = ...) -> None: ...
