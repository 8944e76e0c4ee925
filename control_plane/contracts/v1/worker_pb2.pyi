from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_STOP: _ClassVar[FinishReason]
    FINISH_REASON_LENGTH: _ClassVar[FinishReason]
    FINISH_REASON_ABORT: _ClassVar[FinishReason]

class WorkerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WORKER_STATE_UNSPECIFIED: _ClassVar[WorkerState]
    WORKER_STATE_LOADING: _ClassVar[WorkerState]
    WORKER_STATE_READY: _ClassVar[WorkerState]
    WORKER_STATE_DRAINING: _ClassVar[WorkerState]
    WORKER_STATE_FAILED: _ClassVar[WorkerState]
    WORKER_STATE_STOPPING: _ClassVar[WorkerState]
    WORKER_STATE_ASLEEP: _ClassVar[WorkerState]
    WORKER_STATE_WAKING: _ClassVar[WorkerState]

class TraceMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRACE_MODE_UNSPECIFIED: _ClassVar[TraceMode]
    TRACE_MODE_OFF: _ClassVar[TraceMode]
    TRACE_MODE_SAMPLED: _ClassVar[TraceMode]
    TRACE_MODE_FULL: _ClassVar[TraceMode]

class StepKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEP_KIND_UNSPECIFIED: _ClassVar[StepKind]
    STEP_KIND_PREFILL: _ClassVar[StepKind]
    STEP_KIND_LAST_PREFILL: _ClassVar[StepKind]
    STEP_KIND_DECODE: _ClassVar[StepKind]
FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_STOP: FinishReason
FINISH_REASON_LENGTH: FinishReason
FINISH_REASON_ABORT: FinishReason
WORKER_STATE_UNSPECIFIED: WorkerState
WORKER_STATE_LOADING: WorkerState
WORKER_STATE_READY: WorkerState
WORKER_STATE_DRAINING: WorkerState
WORKER_STATE_FAILED: WorkerState
WORKER_STATE_STOPPING: WorkerState
WORKER_STATE_ASLEEP: WorkerState
WORKER_STATE_WAKING: WorkerState
TRACE_MODE_UNSPECIFIED: TraceMode
TRACE_MODE_OFF: TraceMode
TRACE_MODE_SAMPLED: TraceMode
TRACE_MODE_FULL: TraceMode
STEP_KIND_UNSPECIFIED: StepKind
STEP_KIND_PREFILL: StepKind
STEP_KIND_LAST_PREFILL: StepKind
STEP_KIND_DECODE: StepKind

class RouterFrame(_message.Message):
    __slots__ = ("hello", "generate", "abort")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    GENERATE_FIELD_NUMBER: _ClassVar[int]
    ABORT_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    generate: Generate
    abort: AbortCall
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., generate: _Optional[_Union[Generate, _Mapping]] = ..., abort: _Optional[_Union[AbortCall, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("router_id",)
    ROUTER_ID_FIELD_NUMBER: _ClassVar[int]
    router_id: str
    def __init__(self, router_id: _Optional[str] = ...) -> None: ...

class Generate(_message.Message):
    __slots__ = ("call", "request_id", "prompt_token_ids", "sampling", "priority", "cache_salt", "stream", "arrival_unix", "resumed")
    CALL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_UNIX_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    call: int
    request_id: str
    prompt_token_ids: _containers.RepeatedScalarFieldContainer[int]
    sampling: Sampling
    priority: int
    cache_salt: str
    stream: bool
    arrival_unix: float
    resumed: int
    def __init__(self, call: _Optional[int] = ..., request_id: _Optional[str] = ..., prompt_token_ids: _Optional[_Iterable[int]] = ..., sampling: _Optional[_Union[Sampling, _Mapping]] = ..., priority: _Optional[int] = ..., cache_salt: _Optional[str] = ..., stream: _Optional[bool] = ..., arrival_unix: _Optional[float] = ..., resumed: _Optional[int] = ...) -> None: ...

class Sampling(_message.Message):
    __slots__ = ("n", "temperature", "top_p", "top_k", "min_p", "max_tokens", "min_tokens", "stop", "stop_token_ids", "ignore_eos", "seed", "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "logprobs", "json_object", "json_schema", "regex")
    class LogitBiasEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: float
        def __init__(self, key: _Optional[int] = ..., value: _Optional[float] = ...) -> None: ...
    N_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MIN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    IGNORE_EOS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    LOGIT_BIAS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    JSON_OBJECT_FIELD_NUMBER: _ClassVar[int]
    JSON_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    REGEX_FIELD_NUMBER: _ClassVar[int]
    n: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    max_tokens: int
    min_tokens: int
    stop: _containers.RepeatedScalarFieldContainer[str]
    stop_token_ids: _containers.RepeatedScalarFieldContainer[int]
    ignore_eos: bool
    seed: int
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    logit_bias: _containers.ScalarMap[int, float]
    logprobs: int
    json_object: bool
    json_schema: str
    regex: str
    def __init__(self, n: _Optional[int] = ..., temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., top_k: _Optional[int] = ..., min_p: _Optional[float] = ..., max_tokens: _Optional[int] = ..., min_tokens: _Optional[int] = ..., stop: _Optional[_Iterable[str]] = ..., stop_token_ids: _Optional[_Iterable[int]] = ..., ignore_eos: _Optional[bool] = ..., seed: _Optional[int] = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., repetition_penalty: _Optional[float] = ..., logit_bias: _Optional[_Mapping[int, float]] = ..., logprobs: _Optional[int] = ..., json_object: _Optional[bool] = ..., json_schema: _Optional[str] = ..., regex: _Optional[str] = ...) -> None: ...

class AbortCall(_message.Message):
    __slots__ = ("call",)
    CALL_FIELD_NUMBER: _ClassVar[int]
    call: int
    def __init__(self, call: _Optional[int] = ...) -> None: ...

class WorkerFrame(_message.Message):
    __slots__ = ("seq", "sent_unix", "deltas", "token_calls", "token_ids", "token_texts")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SENT_UNIX_FIELD_NUMBER: _ClassVar[int]
    DELTAS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_TEXTS_FIELD_NUMBER: _ClassVar[int]
    seq: int
    sent_unix: float
    deltas: _containers.RepeatedCompositeFieldContainer[Delta]
    token_calls: _containers.RepeatedScalarFieldContainer[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    token_texts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, seq: _Optional[int] = ..., sent_unix: _Optional[float] = ..., deltas: _Optional[_Iterable[_Union[Delta, _Mapping]]] = ..., token_calls: _Optional[_Iterable[int]] = ..., token_ids: _Optional[_Iterable[int]] = ..., token_texts: _Optional[_Iterable[str]] = ...) -> None: ...

class Delta(_message.Message):
    __slots__ = ("call", "choice", "token_ids", "text", "logprobs", "finish", "done", "error")
    CALL_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    call: int
    choice: int
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    text: str
    logprobs: _containers.RepeatedCompositeFieldContainer[TokenLogprob]
    finish: Finish
    done: Done
    error: CallError
    def __init__(self, call: _Optional[int] = ..., choice: _Optional[int] = ..., token_ids: _Optional[_Iterable[int]] = ..., text: _Optional[str] = ..., logprobs: _Optional[_Iterable[_Union[TokenLogprob, _Mapping]]] = ..., finish: _Optional[_Union[Finish, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., error: _Optional[_Union[CallError, _Mapping]] = ...) -> None: ...

class TokenLogprob(_message.Message):
    __slots__ = ("token_id", "token", "logprob", "rank", "top")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    token_id: int
    token: bytes
    logprob: float
    rank: int
    top: _containers.RepeatedCompositeFieldContainer[TokenLogprob]
    def __init__(self, token_id: _Optional[int] = ..., token: _Optional[bytes] = ..., logprob: _Optional[float] = ..., rank: _Optional[int] = ..., top: _Optional[_Iterable[_Union[TokenLogprob, _Mapping]]] = ...) -> None: ...

class Finish(_message.Message):
    __slots__ = ("reason", "stop_text", "stop_token_id", "output_tokens")
    REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_TEXT_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    reason: FinishReason
    stop_text: str
    stop_token_id: int
    output_tokens: int
    def __init__(self, reason: _Optional[_Union[FinishReason, str]] = ..., stop_text: _Optional[str] = ..., stop_token_id: _Optional[int] = ..., output_tokens: _Optional[int] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ("prompt_tokens", "cached_tokens", "output_tokens", "stages")
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    stages: Stages
    def __init__(self, prompt_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., stages: _Optional[_Union[Stages, _Mapping]] = ...) -> None: ...

class Stages(_message.Message):
    __slots__ = ("received_unix", "queued_s", "prefill_s", "decode_s", "preemptions")
    RECEIVED_UNIX_FIELD_NUMBER: _ClassVar[int]
    QUEUED_S_FIELD_NUMBER: _ClassVar[int]
    PREFILL_S_FIELD_NUMBER: _ClassVar[int]
    DECODE_S_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    received_unix: float
    queued_s: float
    prefill_s: float
    decode_s: float
    preemptions: int
    def __init__(self, received_unix: _Optional[float] = ..., queued_s: _Optional[float] = ..., prefill_s: _Optional[float] = ..., decode_s: _Optional[float] = ..., preemptions: _Optional[int] = ...) -> None: ...

class CallError(_message.Message):
    __slots__ = ("code", "message", "param")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PARAM_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    param: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., param: _Optional[str] = ...) -> None: ...

class GetInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WorkerInfo(_message.Message):
    __slots__ = ("worker_id", "instance_id", "pid", "engine_pid", "started_unix", "engine", "engine_version", "model", "state", "state_reason", "device", "load_s", "kv_events", "kv_events_unavailable")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    ENGINE_PID_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_VERSION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_REASON_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    LOAD_S_FIELD_NUMBER: _ClassVar[int]
    KV_EVENTS_FIELD_NUMBER: _ClassVar[int]
    KV_EVENTS_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    instance_id: str
    pid: int
    engine_pid: int
    started_unix: float
    engine: str
    engine_version: str
    model: ModelInfo
    state: WorkerState
    state_reason: str
    device: str
    load_s: float
    kv_events: bool
    kv_events_unavailable: str
    def __init__(self, worker_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., pid: _Optional[int] = ..., engine_pid: _Optional[int] = ..., started_unix: _Optional[float] = ..., engine: _Optional[str] = ..., engine_version: _Optional[str] = ..., model: _Optional[_Union[ModelInfo, _Mapping]] = ..., state: _Optional[_Union[WorkerState, str]] = ..., state_reason: _Optional[str] = ..., device: _Optional[str] = ..., load_s: _Optional[float] = ..., kv_events: _Optional[bool] = ..., kv_events_unavailable: _Optional[str] = ...) -> None: ...

class ModelInfo(_message.Message):
    __slots__ = ("name", "source", "revision", "dtype", "max_context", "vocab_size", "block_size", "total_blocks", "kv_bytes", "tensor_parallel", "max_num_seqs", "max_num_batched_tokens", "tokenizer_hash")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    MAX_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    KV_BYTES_FIELD_NUMBER: _ClassVar[int]
    TENSOR_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    MAX_NUM_SEQS_FIELD_NUMBER: _ClassVar[int]
    MAX_NUM_BATCHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_HASH_FIELD_NUMBER: _ClassVar[int]
    name: str
    source: str
    revision: str
    dtype: str
    max_context: int
    vocab_size: int
    block_size: int
    total_blocks: int
    kv_bytes: int
    tensor_parallel: int
    max_num_seqs: int
    max_num_batched_tokens: int
    tokenizer_hash: str
    def __init__(self, name: _Optional[str] = ..., source: _Optional[str] = ..., revision: _Optional[str] = ..., dtype: _Optional[str] = ..., max_context: _Optional[int] = ..., vocab_size: _Optional[int] = ..., block_size: _Optional[int] = ..., total_blocks: _Optional[int] = ..., kv_bytes: _Optional[int] = ..., tensor_parallel: _Optional[int] = ..., max_num_seqs: _Optional[int] = ..., max_num_batched_tokens: _Optional[int] = ..., tokenizer_hash: _Optional[str] = ...) -> None: ...

class GetTokenizerRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FileChunk(_message.Message):
    __slots__ = ("name", "size", "data", "last")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    name: str
    size: int
    data: bytes
    last: bool
    def __init__(self, name: _Optional[str] = ..., size: _Optional[int] = ..., data: _Optional[bytes] = ..., last: _Optional[bool] = ...) -> None: ...

class WatchLoadRequest(_message.Message):
    __slots__ = ("interval_s",)
    INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    interval_s: float
    def __init__(self, interval_s: _Optional[float] = ...) -> None: ...

class Load(_message.Message):
    __slots__ = ("instance_id", "sampled_unix", "state", "running", "waiting", "total_blocks", "used_blocks", "kv_usage", "tokens_per_s", "prompt_tokens_per_s", "generated_tokens", "prompt_tokens", "cached_tokens", "preemptions", "steps", "finished", "rss_bytes", "cpu_s", "sleep_level")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_UNIX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    USED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    KV_USAGE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_PER_S_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_PER_S_FIELD_NUMBER: _ClassVar[int]
    GENERATED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    SLEEP_LEVEL_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    sampled_unix: float
    state: WorkerState
    running: int
    waiting: int
    total_blocks: int
    used_blocks: int
    kv_usage: float
    tokens_per_s: float
    prompt_tokens_per_s: float
    generated_tokens: int
    prompt_tokens: int
    cached_tokens: int
    preemptions: int
    steps: int
    finished: int
    rss_bytes: int
    cpu_s: float
    sleep_level: int
    def __init__(self, instance_id: _Optional[str] = ..., sampled_unix: _Optional[float] = ..., state: _Optional[_Union[WorkerState, str]] = ..., running: _Optional[int] = ..., waiting: _Optional[int] = ..., total_blocks: _Optional[int] = ..., used_blocks: _Optional[int] = ..., kv_usage: _Optional[float] = ..., tokens_per_s: _Optional[float] = ..., prompt_tokens_per_s: _Optional[float] = ..., generated_tokens: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., preemptions: _Optional[int] = ..., steps: _Optional[int] = ..., finished: _Optional[int] = ..., rss_bytes: _Optional[int] = ..., cpu_s: _Optional[float] = ..., sleep_level: _Optional[int] = ...) -> None: ...

class ListRequestsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListRequestsResponse(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[RunningRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[RunningRequest, _Mapping]]] = ...) -> None: ...

class RunningRequest(_message.Message):
    __slots__ = ("request_id", "router_id", "prompt_tokens", "output_tokens", "max_tokens", "priority", "received_unix", "first_token_seen")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ROUTER_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_UNIX_FIELD_NUMBER: _ClassVar[int]
    FIRST_TOKEN_SEEN_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    router_id: str
    prompt_tokens: int
    output_tokens: int
    max_tokens: int
    priority: int
    received_unix: float
    first_token_seen: bool
    def __init__(self, request_id: _Optional[str] = ..., router_id: _Optional[str] = ..., prompt_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., max_tokens: _Optional[int] = ..., priority: _Optional[int] = ..., received_unix: _Optional[float] = ..., first_token_seen: _Optional[bool] = ...) -> None: ...

class AbortRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class AbortResponse(_message.Message):
    __slots__ = ("found",)
    FOUND_FIELD_NUMBER: _ClassVar[int]
    found: bool
    def __init__(self, found: _Optional[bool] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("in_flight",)
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    in_flight: int
    def __init__(self, in_flight: _Optional[int] = ...) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StopRequest(_message.Message):
    __slots__ = ("grace_s",)
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    grace_s: float
    def __init__(self, grace_s: _Optional[float] = ...) -> None: ...

class StopResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SleepRequest(_message.Message):
    __slots__ = ("level", "check")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    level: int
    check: bool
    def __init__(self, level: _Optional[int] = ..., check: _Optional[bool] = ...) -> None: ...

class SleepResponse(_message.Message):
    __slots__ = ("changed", "took_s")
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    TOOK_S_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    took_s: float
    def __init__(self, changed: _Optional[bool] = ..., took_s: _Optional[float] = ...) -> None: ...

class WakeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WakeResponse(_message.Message):
    __slots__ = ("changed", "took_s")
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    TOOK_S_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    took_s: float
    def __init__(self, changed: _Optional[bool] = ..., took_s: _Optional[float] = ...) -> None: ...

class WatchStepsRequest(_message.Message):
    __slots__ = ("from_step", "live", "request_id", "last_steps")
    FROM_STEP_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_STEPS_FIELD_NUMBER: _ClassVar[int]
    from_step: int
    live: bool
    request_id: str
    last_steps: int
    def __init__(self, from_step: _Optional[int] = ..., live: _Optional[bool] = ..., request_id: _Optional[str] = ..., last_steps: _Optional[int] = ...) -> None: ...

class ReadClockRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClockReading(_message.Message):
    __slots__ = ("now_unix",)
    NOW_UNIX_FIELD_NUMBER: _ClassVar[int]
    now_unix: float
    def __init__(self, now_unix: _Optional[float] = ...) -> None: ...

class SetTraceRequest(_message.Message):
    __slots__ = ("mode", "every")
    MODE_FIELD_NUMBER: _ClassVar[int]
    EVERY_FIELD_NUMBER: _ClassVar[int]
    mode: TraceMode
    every: int
    def __init__(self, mode: _Optional[_Union[TraceMode, str]] = ..., every: _Optional[int] = ...) -> None: ...

class TraceState(_message.Message):
    __slots__ = ("mode", "every", "unavailable", "step", "first_kept", "dropped")
    MODE_FIELD_NUMBER: _ClassVar[int]
    EVERY_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    FIRST_KEPT_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    mode: TraceMode
    every: int
    unavailable: str
    step: int
    first_kept: int
    dropped: int
    def __init__(self, mode: _Optional[_Union[TraceMode, str]] = ..., every: _Optional[int] = ..., unavailable: _Optional[str] = ..., step: _Optional[int] = ..., first_kept: _Optional[int] = ..., dropped: _Optional[int] = ...) -> None: ...

class StepFrame(_message.Message):
    __slots__ = ("steps", "trace", "base")
    STEPS_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    steps: _containers.RepeatedCompositeFieldContainer[EngineStep]
    trace: TraceState
    base: BlockSnapshot
    def __init__(self, steps: _Optional[_Iterable[_Union[EngineStep, _Mapping]]] = ..., trace: _Optional[_Union[TraceState, _Mapping]] = ..., base: _Optional[_Union[BlockSnapshot, _Mapping]] = ...) -> None: ...

class EngineStep(_message.Message):
    __slots__ = ("step", "started_unix", "schedule_s", "execute_s", "tokens", "rows", "waiting", "waiting_total", "preempted", "finished", "total_blocks", "used_blocks", "cached_free_blocks", "free_blocks", "dropped", "batch")
    STEP_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_S_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_S_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    WAITING_TOTAL_FIELD_NUMBER: _ClassVar[int]
    PREEMPTED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    USED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    CACHED_FREE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    FREE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    step: int
    started_unix: float
    schedule_s: float
    execute_s: float
    tokens: int
    rows: _containers.RepeatedCompositeFieldContainer[StepRow]
    waiting: _containers.RepeatedCompositeFieldContainer[StepWaiting]
    waiting_total: int
    preempted: _containers.RepeatedScalarFieldContainer[str]
    finished: _containers.RepeatedCompositeFieldContainer[StepFinished]
    total_blocks: int
    used_blocks: int
    cached_free_blocks: int
    free_blocks: int
    dropped: int
    batch: int
    def __init__(self, step: _Optional[int] = ..., started_unix: _Optional[float] = ..., schedule_s: _Optional[float] = ..., execute_s: _Optional[float] = ..., tokens: _Optional[int] = ..., rows: _Optional[_Iterable[_Union[StepRow, _Mapping]]] = ..., waiting: _Optional[_Iterable[_Union[StepWaiting, _Mapping]]] = ..., waiting_total: _Optional[int] = ..., preempted: _Optional[_Iterable[str]] = ..., finished: _Optional[_Iterable[_Union[StepFinished, _Mapping]]] = ..., total_blocks: _Optional[int] = ..., used_blocks: _Optional[int] = ..., cached_free_blocks: _Optional[int] = ..., free_blocks: _Optional[int] = ..., dropped: _Optional[int] = ..., batch: _Optional[int] = ...) -> None: ...

class StepRow(_message.Message):
    __slots__ = ("request_id", "kind", "tokens", "computed", "prompt_tokens", "output_tokens", "cached_tokens", "priority", "joined", "resumed", "new_blocks", "blocks")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    NEW_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    kind: StepKind
    tokens: int
    computed: int
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    priority: int
    joined: bool
    resumed: bool
    new_blocks: _containers.RepeatedScalarFieldContainer[int]
    blocks: int
    def __init__(self, request_id: _Optional[str] = ..., kind: _Optional[_Union[StepKind, str]] = ..., tokens: _Optional[int] = ..., computed: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., priority: _Optional[int] = ..., joined: _Optional[bool] = ..., resumed: _Optional[bool] = ..., new_blocks: _Optional[_Iterable[int]] = ..., blocks: _Optional[int] = ...) -> None: ...

class StepWaiting(_message.Message):
    __slots__ = ("request_id", "tokens", "priority", "preempted")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PREEMPTED_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    tokens: int
    priority: int
    preempted: bool
    def __init__(self, request_id: _Optional[str] = ..., tokens: _Optional[int] = ..., priority: _Optional[int] = ..., preempted: _Optional[bool] = ...) -> None: ...

class StepFinished(_message.Message):
    __slots__ = ("request_id", "reason", "output_tokens", "freed_blocks")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    FREED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    reason: str
    output_tokens: int
    freed_blocks: int
    def __init__(self, request_id: _Optional[str] = ..., reason: _Optional[str] = ..., output_tokens: _Optional[int] = ..., freed_blocks: _Optional[int] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("kind", "after_s", "for_s", "factor")
    KIND_FIELD_NUMBER: _ClassVar[int]
    AFTER_S_FIELD_NUMBER: _ClassVar[int]
    FOR_S_FIELD_NUMBER: _ClassVar[int]
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    kind: str
    after_s: float
    for_s: float
    factor: float
    def __init__(self, kind: _Optional[str] = ..., after_s: _Optional[float] = ..., for_s: _Optional[float] = ..., factor: _Optional[float] = ...) -> None: ...

class InjectRequest(_message.Message):
    __slots__ = ("failure", "heal")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    HEAL_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    heal: bool
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., heal: _Optional[bool] = ...) -> None: ...

class InjectResponse(_message.Message):
    __slots__ = ("failures",)
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    failures: _containers.RepeatedCompositeFieldContainer[Failure]
    def __init__(self, failures: _Optional[_Iterable[_Union[Failure, _Mapping]]] = ...) -> None: ...

class GetBlocksRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BlockSnapshot(_message.Message):
    __slots__ = ("step", "taken_unix", "block_size", "total_blocks", "used_blocks", "cached_free_blocks", "free_blocks", "tables", "shared", "cached_free", "waiting")
    STEP_FIELD_NUMBER: _ClassVar[int]
    TAKEN_UNIX_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    USED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    CACHED_FREE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    FREE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    CACHED_FREE_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    step: int
    taken_unix: float
    block_size: int
    total_blocks: int
    used_blocks: int
    cached_free_blocks: int
    free_blocks: int
    tables: _containers.RepeatedCompositeFieldContainer[BlockTable]
    shared: _containers.RepeatedCompositeFieldContainer[SharedBlock]
    cached_free: _containers.RepeatedScalarFieldContainer[int]
    waiting: _containers.RepeatedCompositeFieldContainer[StepWaiting]
    def __init__(self, step: _Optional[int] = ..., taken_unix: _Optional[float] = ..., block_size: _Optional[int] = ..., total_blocks: _Optional[int] = ..., used_blocks: _Optional[int] = ..., cached_free_blocks: _Optional[int] = ..., free_blocks: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[BlockTable, _Mapping]]] = ..., shared: _Optional[_Iterable[_Union[SharedBlock, _Mapping]]] = ..., cached_free: _Optional[_Iterable[int]] = ..., waiting: _Optional[_Iterable[_Union[StepWaiting, _Mapping]]] = ...) -> None: ...

class BlockTable(_message.Message):
    __slots__ = ("request_id", "blocks", "computed")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    blocks: _containers.RepeatedScalarFieldContainer[int]
    computed: int
    def __init__(self, request_id: _Optional[str] = ..., blocks: _Optional[_Iterable[int]] = ..., computed: _Optional[int] = ...) -> None: ...

class SharedBlock(_message.Message):
    __slots__ = ("block", "references")
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    block: int
    references: int
    def __init__(self, block: _Optional[int] = ..., references: _Optional[int] = ...) -> None: ...

class WatchKvEventsRequest(_message.Message):
    __slots__ = ("from_seq", "instance_id")
    FROM_SEQ_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    from_seq: int
    instance_id: str
    def __init__(self, from_seq: _Optional[int] = ..., instance_id: _Optional[str] = ...) -> None: ...

class KvFrame(_message.Message):
    __slots__ = ("instance_id", "snapshot", "batches", "lost", "unavailable")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    snapshot: KvSnapshot
    batches: _containers.RepeatedCompositeFieldContainer[KvBatch]
    lost: int
    unavailable: str
    def __init__(self, instance_id: _Optional[str] = ..., snapshot: _Optional[_Union[KvSnapshot, _Mapping]] = ..., batches: _Optional[_Iterable[_Union[KvBatch, _Mapping]]] = ..., lost: _Optional[int] = ..., unavailable: _Optional[str] = ...) -> None: ...

class KvSnapshot(_message.Message):
    __slots__ = ("seq", "hashes", "more")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    seq: int
    hashes: _containers.RepeatedScalarFieldContainer[int]
    more: bool
    def __init__(self, seq: _Optional[int] = ..., hashes: _Optional[_Iterable[int]] = ..., more: _Optional[bool] = ...) -> None: ...

class KvBatch(_message.Message):
    __slots__ = ("seq", "events")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    seq: int
    events: _containers.RepeatedCompositeFieldContainer[KvEvent]
    def __init__(self, seq: _Optional[int] = ..., events: _Optional[_Iterable[_Union[KvEvent, _Mapping]]] = ...) -> None: ...

class KvEvent(_message.Message):
    __slots__ = ("stored", "removed", "cleared")
    STORED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    stored: _containers.RepeatedScalarFieldContainer[int]
    removed: _containers.RepeatedScalarFieldContainer[int]
    cleared: bool
    def __init__(self, stored: _Optional[_Iterable[int]] = ..., removed: _Optional[_Iterable[int]] = ..., cleared: _Optional[bool] = ...) -> None: ...
