from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Routing(_message.Message):
    __slots__ = ("profile", "profiles", "models", "admission")
    class ProfilesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: RoutingProfile
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[RoutingProfile, _Mapping]] = ...) -> None: ...
    class ModelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ModelRoute
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ModelRoute, _Mapping]] = ...) -> None: ...
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    ADMISSION_FIELD_NUMBER: _ClassVar[int]
    profile: str
    profiles: _containers.MessageMap[str, RoutingProfile]
    models: _containers.MessageMap[str, ModelRoute]
    admission: AdmissionRules
    def __init__(self, profile: _Optional[str] = ..., profiles: _Optional[_Mapping[str, RoutingProfile]] = ..., models: _Optional[_Mapping[str, ModelRoute]] = ..., admission: _Optional[_Union[AdmissionRules, _Mapping]] = ...) -> None: ...

class RoutingProfile(_message.Message):
    __slots__ = ("weights", "picker", "temperature")
    class WeightsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    PICKER_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    weights: _containers.ScalarMap[str, float]
    picker: str
    temperature: float
    def __init__(self, weights: _Optional[_Mapping[str, float]] = ..., picker: _Optional[str] = ..., temperature: _Optional[float] = ...) -> None: ...

class RouterState(_message.Message):
    __slots__ = ("router_id", "pid", "started_unix", "profile", "queued", "draining", "gateways", "endpoints", "metrics_url")
    ROUTER_ID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    GATEWAYS_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    METRICS_URL_FIELD_NUMBER: _ClassVar[int]
    router_id: str
    pid: int
    started_unix: float
    profile: str
    queued: int
    draining: bool
    gateways: _containers.RepeatedCompositeFieldContainer[RoutedGateway]
    endpoints: _containers.RepeatedCompositeFieldContainer[SeenEndpoint]
    metrics_url: str
    def __init__(self, router_id: _Optional[str] = ..., pid: _Optional[int] = ..., started_unix: _Optional[float] = ..., profile: _Optional[str] = ..., queued: _Optional[int] = ..., draining: _Optional[bool] = ..., gateways: _Optional[_Iterable[_Union[RoutedGateway, _Mapping]]] = ..., endpoints: _Optional[_Iterable[_Union[SeenEndpoint, _Mapping]]] = ..., metrics_url: _Optional[str] = ...) -> None: ...

class RoutedGateway(_message.Message):
    __slots__ = ("id", "in_flight")
    ID_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    id: str
    in_flight: int
    def __init__(self, id: _Optional[str] = ..., in_flight: _Optional[int] = ...) -> None: ...

class SeenEndpoint(_message.Message):
    __slots__ = ("worker_id", "instance_id", "model", "ready", "connected", "cordoned", "requests", "sequences", "tokens", "others", "kv_usage", "sample_age_s", "failures", "refusing_s")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    CORDONED_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    KV_USAGE_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_AGE_S_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    REFUSING_S_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    instance_id: str
    model: str
    ready: bool
    connected: bool
    cordoned: bool
    requests: int
    sequences: int
    tokens: float
    others: int
    kv_usage: float
    sample_age_s: float
    failures: int
    refusing_s: float
    def __init__(self, worker_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., model: _Optional[str] = ..., ready: _Optional[bool] = ..., connected: _Optional[bool] = ..., cordoned: _Optional[bool] = ..., requests: _Optional[int] = ..., sequences: _Optional[int] = ..., tokens: _Optional[float] = ..., others: _Optional[int] = ..., kv_usage: _Optional[float] = ..., sample_age_s: _Optional[float] = ..., failures: _Optional[int] = ..., refusing_s: _Optional[float] = ...) -> None: ...

class ModelRoute(_message.Message):
    __slots__ = ("target", "split", "small", "large", "threshold", "rule", "fallback", "shadow")
    class SplitEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TARGET_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    SMALL_FIELD_NUMBER: _ClassVar[int]
    LARGE_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_FIELD_NUMBER: _ClassVar[int]
    SHADOW_FIELD_NUMBER: _ClassVar[int]
    target: str
    split: _containers.ScalarMap[str, int]
    small: str
    large: str
    threshold: float
    rule: ComplexityRule
    fallback: _containers.RepeatedScalarFieldContainer[str]
    shadow: bool
    def __init__(self, target: _Optional[str] = ..., split: _Optional[_Mapping[str, int]] = ..., small: _Optional[str] = ..., large: _Optional[str] = ..., threshold: _Optional[float] = ..., rule: _Optional[_Union[ComplexityRule, _Mapping]] = ..., fallback: _Optional[_Iterable[str]] = ..., shadow: _Optional[bool] = ...) -> None: ...

class ComplexityRule(_message.Message):
    __slots__ = ("weights", "long_prompt", "long_output", "words")
    class WeightsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    LONG_PROMPT_FIELD_NUMBER: _ClassVar[int]
    LONG_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    weights: _containers.ScalarMap[str, float]
    long_prompt: int
    long_output: int
    words: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, weights: _Optional[_Mapping[str, float]] = ..., long_prompt: _Optional[int] = ..., long_output: _Optional[int] = ..., words: _Optional[_Iterable[str]] = ...) -> None: ...

class AdmissionRules(_message.Message):
    __slots__ = ("watch", "busy", "reject", "hysteresis", "kv_limit", "engine_queue", "queue_limit", "queue_share")
    WATCH_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    REJECT_FIELD_NUMBER: _ClassVar[int]
    HYSTERESIS_FIELD_NUMBER: _ClassVar[int]
    KV_LIMIT_FIELD_NUMBER: _ClassVar[int]
    ENGINE_QUEUE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_LIMIT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_SHARE_FIELD_NUMBER: _ClassVar[int]
    watch: float
    busy: float
    reject: float
    hysteresis: float
    kv_limit: float
    engine_queue: int
    queue_limit: int
    queue_share: float
    def __init__(self, watch: _Optional[float] = ..., busy: _Optional[float] = ..., reject: _Optional[float] = ..., hysteresis: _Optional[float] = ..., kv_limit: _Optional[float] = ..., engine_queue: _Optional[int] = ..., queue_limit: _Optional[int] = ..., queue_share: _Optional[float] = ...) -> None: ...
