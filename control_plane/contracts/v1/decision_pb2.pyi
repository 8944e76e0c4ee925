from control_plane.contracts.v1 import routing_pb2 as _routing_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DecisionView(_message.Message):
    __slots__ = ("number", "router_id", "request_id", "attempt", "at_unix", "model", "profile", "by", "scorers", "candidates", "more_candidates", "rejected", "rejected_by", "chosen", "waited_s", "looks", "prompt_tokens", "expected_tokens", "continued_tokens")
    class RejectedByEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ROUTER_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    AT_UNIX_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    SCORERS_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    MORE_CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_BY_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    WAITED_S_FIELD_NUMBER: _ClassVar[int]
    LOOKS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CONTINUED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    number: int
    router_id: str
    request_id: str
    attempt: int
    at_unix: float
    model: str
    profile: str
    by: _routing_pb2.RoutingProfile
    scorers: _containers.RepeatedScalarFieldContainer[str]
    candidates: _containers.RepeatedCompositeFieldContainer[CandidateView]
    more_candidates: int
    rejected: _containers.RepeatedCompositeFieldContainer[RejectedView]
    rejected_by: _containers.ScalarMap[str, int]
    chosen: str
    waited_s: float
    looks: int
    prompt_tokens: int
    expected_tokens: float
    continued_tokens: int
    def __init__(self, number: _Optional[int] = ..., router_id: _Optional[str] = ..., request_id: _Optional[str] = ..., attempt: _Optional[int] = ..., at_unix: _Optional[float] = ..., model: _Optional[str] = ..., profile: _Optional[str] = ..., by: _Optional[_Union[_routing_pb2.RoutingProfile, _Mapping]] = ..., scorers: _Optional[_Iterable[str]] = ..., candidates: _Optional[_Iterable[_Union[CandidateView, _Mapping]]] = ..., more_candidates: _Optional[int] = ..., rejected: _Optional[_Iterable[_Union[RejectedView, _Mapping]]] = ..., rejected_by: _Optional[_Mapping[str, int]] = ..., chosen: _Optional[str] = ..., waited_s: _Optional[float] = ..., looks: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., expected_tokens: _Optional[float] = ..., continued_tokens: _Optional[int] = ...) -> None: ...

class CandidateView(_message.Message):
    __slots__ = ("worker_id", "instance_id", "scores", "total", "chance", "sample_age_s", "stale", "inputs")
    class InputsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    CHANCE_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_AGE_S_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    instance_id: str
    scores: _containers.RepeatedScalarFieldContainer[float]
    total: float
    chance: float
    sample_age_s: float
    stale: bool
    inputs: _containers.ScalarMap[str, float]
    def __init__(self, worker_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., scores: _Optional[_Iterable[float]] = ..., total: _Optional[float] = ..., chance: _Optional[float] = ..., sample_age_s: _Optional[float] = ..., stale: _Optional[bool] = ..., inputs: _Optional[_Mapping[str, float]] = ...) -> None: ...

class RejectedView(_message.Message):
    __slots__ = ("worker_id", "reason", "words")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    reason: str
    words: str
    def __init__(self, worker_id: _Optional[str] = ..., reason: _Optional[str] = ..., words: _Optional[str] = ...) -> None: ...

class DecisionQuestion(_message.Message):
    __slots__ = ("number", "request_id", "last", "after", "candidates", "again")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    number: int
    request_id: str
    last: int
    after: int
    candidates: int
    again: _routing_pb2.RoutingProfile
    def __init__(self, number: _Optional[int] = ..., request_id: _Optional[str] = ..., last: _Optional[int] = ..., after: _Optional[int] = ..., candidates: _Optional[int] = ..., again: _Optional[_Union[_routing_pb2.RoutingProfile, _Mapping]] = ...) -> None: ...

class DecisionAnswer(_message.Message):
    __slots__ = ("number", "decisions", "rescored", "error")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    RESCORED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    number: int
    decisions: _containers.RepeatedCompositeFieldContainer[DecisionView]
    rescored: RescoredView
    error: str
    def __init__(self, number: _Optional[int] = ..., decisions: _Optional[_Iterable[_Union[DecisionView, _Mapping]]] = ..., rescored: _Optional[_Union[RescoredView, _Mapping]] = ..., error: _Optional[str] = ...) -> None: ...

class RescoredView(_message.Message):
    __slots__ = ("router_id", "decisions", "partial", "elsewhere", "moved", "workers")
    class WorkersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: WorkerShare
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[WorkerShare, _Mapping]] = ...) -> None: ...
    ROUTER_ID_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    router_id: str
    decisions: int
    partial: int
    elsewhere: float
    moved: _containers.RepeatedCompositeFieldContainer[MovedView]
    workers: _containers.MessageMap[str, WorkerShare]
    def __init__(self, router_id: _Optional[str] = ..., decisions: _Optional[int] = ..., partial: _Optional[int] = ..., elsewhere: _Optional[float] = ..., moved: _Optional[_Iterable[_Union[MovedView, _Mapping]]] = ..., workers: _Optional[_Mapping[str, WorkerShare]] = ...) -> None: ...

class MovedView(_message.Message):
    __slots__ = ("number", "request_id", "attempt", "at_unix", "model", "was", "would", "was_total", "would_total", "chance")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    AT_UNIX_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    WAS_FIELD_NUMBER: _ClassVar[int]
    WOULD_FIELD_NUMBER: _ClassVar[int]
    WAS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    WOULD_TOTAL_FIELD_NUMBER: _ClassVar[int]
    CHANCE_FIELD_NUMBER: _ClassVar[int]
    number: int
    request_id: str
    attempt: int
    at_unix: float
    model: str
    was: str
    would: str
    was_total: float
    would_total: float
    chance: float
    def __init__(self, number: _Optional[int] = ..., request_id: _Optional[str] = ..., attempt: _Optional[int] = ..., at_unix: _Optional[float] = ..., model: _Optional[str] = ..., was: _Optional[str] = ..., would: _Optional[str] = ..., was_total: _Optional[float] = ..., would_total: _Optional[float] = ..., chance: _Optional[float] = ...) -> None: ...

class WorkerShare(_message.Message):
    __slots__ = ("requests", "requests_again", "tokens", "tokens_again")
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_AGAIN_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_AGAIN_FIELD_NUMBER: _ClassVar[int]
    requests: float
    requests_again: float
    tokens: float
    tokens_again: float
    def __init__(self, requests: _Optional[float] = ..., requests_again: _Optional[float] = ..., tokens: _Optional[float] = ..., tokens_again: _Optional[float] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("request_id", "decisions", "silent", "holds")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    decisions: _containers.RepeatedCompositeFieldContainer[DecisionView]
    silent: _containers.RepeatedScalarFieldContainer[str]
    holds: _containers.RepeatedCompositeFieldContainer[Hold]
    def __init__(self, request_id: _Optional[str] = ..., decisions: _Optional[_Iterable[_Union[DecisionView, _Mapping]]] = ..., silent: _Optional[_Iterable[str]] = ..., holds: _Optional[_Iterable[_Union[Hold, _Mapping]]] = ...) -> None: ...

class Hold(_message.Message):
    __slots__ = ("reason", "start_s", "waited_s", "over", "tier", "band", "saturation", "position", "queued")
    REASON_FIELD_NUMBER: _ClassVar[int]
    START_S_FIELD_NUMBER: _ClassVar[int]
    WAITED_S_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    BAND_FIELD_NUMBER: _ClassVar[int]
    SATURATION_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    reason: str
    start_s: float
    waited_s: float
    over: bool
    tier: str
    band: str
    saturation: float
    position: int
    queued: int
    def __init__(self, reason: _Optional[str] = ..., start_s: _Optional[float] = ..., waited_s: _Optional[float] = ..., over: _Optional[bool] = ..., tier: _Optional[str] = ..., band: _Optional[str] = ..., saturation: _Optional[float] = ..., position: _Optional[int] = ..., queued: _Optional[int] = ...) -> None: ...

class ListDecisionsRequest(_message.Message):
    __slots__ = ("last", "after")
    class AfterEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    LAST_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    last: int
    after: _containers.ScalarMap[str, int]
    def __init__(self, last: _Optional[int] = ..., after: _Optional[_Mapping[str, int]] = ...) -> None: ...

class DecisionList(_message.Message):
    __slots__ = ("decisions", "silent", "taken_unix")
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    TAKEN_UNIX_FIELD_NUMBER: _ClassVar[int]
    decisions: _containers.RepeatedCompositeFieldContainer[DecisionView]
    silent: _containers.RepeatedScalarFieldContainer[str]
    taken_unix: float
    def __init__(self, decisions: _Optional[_Iterable[_Union[DecisionView, _Mapping]]] = ..., silent: _Optional[_Iterable[str]] = ..., taken_unix: _Optional[float] = ...) -> None: ...

class ReplayDecisionsRequest(_message.Message):
    __slots__ = ("profile", "by", "last")
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    profile: str
    by: _routing_pb2.RoutingProfile
    last: int
    def __init__(self, profile: _Optional[str] = ..., by: _Optional[_Union[_routing_pb2.RoutingProfile, _Mapping]] = ..., last: _Optional[int] = ...) -> None: ...

class DecisionReplay(_message.Message):
    __slots__ = ("profile", "by", "routers", "silent", "errors")
    class ErrorsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    ROUTERS_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    profile: str
    by: _routing_pb2.RoutingProfile
    routers: _containers.RepeatedCompositeFieldContainer[RescoredView]
    silent: _containers.RepeatedScalarFieldContainer[str]
    errors: _containers.ScalarMap[str, str]
    def __init__(self, profile: _Optional[str] = ..., by: _Optional[_Union[_routing_pb2.RoutingProfile, _Mapping]] = ..., routers: _Optional[_Iterable[_Union[RescoredView, _Mapping]]] = ..., silent: _Optional[_Iterable[str]] = ..., errors: _Optional[_Mapping[str, str]] = ...) -> None: ...
