from control_plane.contracts.v1 import operator_pb2 as _operator_pb2
from control_plane.contracts.v1 import routing_pb2 as _routing_pb2
from control_plane.contracts.v1 import worker_pb2 as _worker_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GatewayFrame(_message.Message):
    __slots__ = ("hello", "submit", "withdraw")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_FIELD_NUMBER: _ClassVar[int]
    WITHDRAW_FIELD_NUMBER: _ClassVar[int]
    hello: GatewayHello
    submit: SubmitCall
    withdraw: WithdrawCall
    def __init__(self, hello: _Optional[_Union[GatewayHello, _Mapping]] = ..., submit: _Optional[_Union[SubmitCall, _Mapping]] = ..., withdraw: _Optional[_Union[WithdrawCall, _Mapping]] = ...) -> None: ...

class GatewayHello(_message.Message):
    __slots__ = ("gateway_id", "router_id")
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    ROUTER_ID_FIELD_NUMBER: _ClassVar[int]
    gateway_id: str
    router_id: str
    def __init__(self, gateway_id: _Optional[str] = ..., router_id: _Optional[str] = ...) -> None: ...

class SubmitCall(_message.Message):
    __slots__ = ("call", "routed", "age_s")
    CALL_FIELD_NUMBER: _ClassVar[int]
    ROUTED_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    call: int
    routed: RoutedCall
    age_s: float
    def __init__(self, call: _Optional[int] = ..., routed: _Optional[_Union[RoutedCall, _Mapping]] = ..., age_s: _Optional[float] = ...) -> None: ...

class RoutedCall(_message.Message):
    __slots__ = ("request_id", "model", "prompt_token_ids", "sampling", "stream", "arrival_unix", "arrival_mono", "priority", "queue_timeout_s", "cache_salt", "key_id", "api", "stages", "traceparent", "resumed", "gateway_id", "attempts", "ttft_s", "session", "choice", "service", "flow", "hops")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_UNIX_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_MONO_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    QUEUE_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    API_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    TTFT_S_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    model: str
    prompt_token_ids: _containers.RepeatedScalarFieldContainer[int]
    sampling: _worker_pb2.Sampling
    stream: bool
    arrival_unix: float
    arrival_mono: float
    priority: int
    queue_timeout_s: float
    cache_salt: str
    key_id: str
    api: str
    stages: _containers.RepeatedCompositeFieldContainer[_operator_pb2.Stage]
    traceparent: str
    resumed: int
    gateway_id: str
    attempts: int
    ttft_s: float
    session: str
    choice: _operator_pb2.ModelChoice
    service: Service
    flow: str
    hops: bool
    def __init__(self, request_id: _Optional[str] = ..., model: _Optional[str] = ..., prompt_token_ids: _Optional[_Iterable[int]] = ..., sampling: _Optional[_Union[_worker_pb2.Sampling, _Mapping]] = ..., stream: _Optional[bool] = ..., arrival_unix: _Optional[float] = ..., arrival_mono: _Optional[float] = ..., priority: _Optional[int] = ..., queue_timeout_s: _Optional[float] = ..., cache_salt: _Optional[str] = ..., key_id: _Optional[str] = ..., api: _Optional[str] = ..., stages: _Optional[_Iterable[_Union[_operator_pb2.Stage, _Mapping]]] = ..., traceparent: _Optional[str] = ..., resumed: _Optional[int] = ..., gateway_id: _Optional[str] = ..., attempts: _Optional[int] = ..., ttft_s: _Optional[float] = ..., session: _Optional[str] = ..., choice: _Optional[_Union[_operator_pb2.ModelChoice, _Mapping]] = ..., service: _Optional[_Union[Service, _Mapping]] = ..., flow: _Optional[str] = ..., hops: _Optional[bool] = ...) -> None: ...

class Service(_message.Message):
    __slots__ = ("tier", "weight", "at_busy", "at_reject", "min_share")
    TIER_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    AT_BUSY_FIELD_NUMBER: _ClassVar[int]
    AT_REJECT_FIELD_NUMBER: _ClassVar[int]
    MIN_SHARE_FIELD_NUMBER: _ClassVar[int]
    tier: str
    weight: int
    at_busy: str
    at_reject: str
    min_share: float
    def __init__(self, tier: _Optional[str] = ..., weight: _Optional[int] = ..., at_busy: _Optional[str] = ..., at_reject: _Optional[str] = ..., min_share: _Optional[float] = ...) -> None: ...

class WithdrawCall(_message.Message):
    __slots__ = ("call", "reason", "tell_used")
    CALL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TELL_USED_FIELD_NUMBER: _ClassVar[int]
    call: int
    reason: str
    tell_used: bool
    def __init__(self, call: _Optional[int] = ..., reason: _Optional[str] = ..., tell_used: _Optional[bool] = ...) -> None: ...

class RoutedFrame(_message.Message):
    __slots__ = ("seq", "placed", "tokens", "refusals", "last_words", "catalogue", "hops")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    PLACED_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    LAST_WORDS_FIELD_NUMBER: _ClassVar[int]
    CATALOGUE_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    seq: int
    placed: _containers.RepeatedCompositeFieldContainer[Placed]
    tokens: _worker_pb2.WorkerFrame
    refusals: _containers.RepeatedCompositeFieldContainer[Refusal]
    last_words: _containers.RepeatedCompositeFieldContainer[LastWords]
    catalogue: Catalogue
    hops: _containers.RepeatedCompositeFieldContainer[Hop]
    def __init__(self, seq: _Optional[int] = ..., placed: _Optional[_Iterable[_Union[Placed, _Mapping]]] = ..., tokens: _Optional[_Union[_worker_pb2.WorkerFrame, _Mapping]] = ..., refusals: _Optional[_Iterable[_Union[Refusal, _Mapping]]] = ..., last_words: _Optional[_Iterable[_Union[LastWords, _Mapping]]] = ..., catalogue: _Optional[_Union[Catalogue, _Mapping]] = ..., hops: _Optional[_Iterable[_Union[Hop, _Mapping]]] = ...) -> None: ...

class Hop(_message.Message):
    __slots__ = ("call", "worker_unix")
    CALL_FIELD_NUMBER: _ClassVar[int]
    WORKER_UNIX_FIELD_NUMBER: _ClassVar[int]
    call: int
    worker_unix: float
    def __init__(self, call: _Optional[int] = ..., worker_unix: _Optional[float] = ...) -> None: ...

class Placed(_message.Message):
    __slots__ = ("call", "worker_id", "retries")
    CALL_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    call: int
    worker_id: str
    retries: int
    def __init__(self, call: _Optional[int] = ..., worker_id: _Optional[str] = ..., retries: _Optional[int] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("call", "reason", "message", "param", "code", "hint", "retry_after_s", "retry")
    CALL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PARAM_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    call: int
    reason: str
    message: str
    param: str
    code: str
    hint: str
    retry_after_s: float
    retry: bool
    def __init__(self, call: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., param: _Optional[str] = ..., code: _Optional[str] = ..., hint: _Optional[str] = ..., retry_after_s: _Optional[float] = ..., retry: _Optional[bool] = ...) -> None: ...

class LastWords(_message.Message):
    __slots__ = ("call", "output_tokens")
    CALL_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    call: int
    output_tokens: int
    def __init__(self, call: _Optional[int] = ..., output_tokens: _Optional[int] = ...) -> None: ...

class Catalogue(_message.Message):
    __slots__ = ("router_id", "models", "joined", "ready", "draining", "in_flight")
    ROUTER_ID_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    router_id: str
    models: _containers.RepeatedCompositeFieldContainer[_operator_pb2.ModelView]
    joined: bool
    ready: bool
    draining: bool
    in_flight: int
    def __init__(self, router_id: _Optional[str] = ..., models: _Optional[_Iterable[_Union[_operator_pb2.ModelView, _Mapping]]] = ..., joined: _Optional[bool] = ..., ready: _Optional[bool] = ..., draining: _Optional[bool] = ..., in_flight: _Optional[int] = ...) -> None: ...

class ModelTokenizerRequest(_message.Message):
    __slots__ = ("model", "known_hash")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    KNOWN_HASH_FIELD_NUMBER: _ClassVar[int]
    model: str
    known_hash: str
    def __init__(self, model: _Optional[str] = ..., known_hash: _Optional[str] = ...) -> None: ...

class TokenizerChunk(_message.Message):
    __slots__ = ("hash", "max_context", "vocab_size", "unchanged", "file")
    HASH_FIELD_NUMBER: _ClassVar[int]
    MAX_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    hash: str
    max_context: int
    vocab_size: int
    unchanged: bool
    file: _worker_pb2.FileChunk
    def __init__(self, hash: _Optional[str] = ..., max_context: _Optional[int] = ..., vocab_size: _Optional[int] = ..., unchanged: _Optional[bool] = ..., file: _Optional[_Union[_worker_pb2.FileChunk, _Mapping]] = ...) -> None: ...

class StateRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
