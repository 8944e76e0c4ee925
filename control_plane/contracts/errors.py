"""The one error tree, and the one table from an error to its gRPC and HTTP status.

::

    InferDeckError
    ├── RequestRefused            the caller's fault: nothing was run
    │   ├── InvalidRequest            400  invalid_request
    │   ├── Unauthenticated           401  invalid_api_key
    │   ├── Forbidden                 403  model_not_allowed, not_an_operator, role_too_low, wrong_peer
    │   ├── NotFound                  404  model_not_found, not_found
    │   ├── MethodNotAllowed          405  method_not_allowed
    │   ├── RequestTimeout            408  request_timeout
    │   ├── Conflict                  409  conflict
    │   ├── TooLarge                  413  request_too_large
    │   ├── UnsupportedMediaType      415  unsupported_media_type
    │   ├── HeadersTooLarge           431  headers_too_large
    │   └── Throttled                 429  rate_limit_exceeded, tier_throttled
    │       └── TokensThrottled            rate_limit_exceeded, of tokens
    ├── Unavailable               ours, and it passes: 503  overloaded, no_capacity, model_loading, draining, …
    ├── RequestCancelled          499  request_cancelled: the client left, or an operator cancelled
    ├── WorkerLost                502  worker_lost: the worker died before or during generation
    ├── InternalError             500  internal_error
    ├── StoreFull                 507  store_full: no room on the store's disk, and waiting makes none
    └── SettingsError             a setting is wrong; never leaves the process that reads it

Every error carries a ``DropReason``: metric label, OpenAI ``code`` and what the console shows are the same word.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DropReason(StrEnum):
    INVALID_REQUEST = "invalid_request"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    INVALID_API_KEY = "invalid_api_key"
    MODEL_NOT_ALLOWED = "model_not_allowed"
    NOT_AN_OPERATOR = "not_an_operator"
    ROLE_TOO_LOW = "role_too_low"
    WRONG_PEER = "wrong_peer"
    MODEL_NOT_FOUND = "model_not_found"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    REQUEST_TIMEOUT = "request_timeout"
    CONFLICT = "conflict"
    REQUEST_TOO_LARGE = "request_too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    HEADERS_TOO_LARGE = "headers_too_large"
    RATE_LIMIT_EXCEEDED = "rate_limit_exceeded"
    TIER_THROTTLED = "tier_throttled"
    OVERLOADED = "overloaded"
    NO_CAPACITY = "no_capacity"
    MODEL_LOADING = "model_loading"
    DRAINING = "draining"
    REQUEST_CANCELLED = "request_cancelled"
    WORKER_LOST = "worker_lost"
    ENGINE_DEAD = "engine_dead"
    INTERNAL_ERROR = "internal_error"
    STORE_FULL = "store_full"


@dataclass(frozen=True, slots=True)
class Status:
    """What one kind of error is at each edge. ``grpc`` is the name of a ``grpc.StatusCode``."""

    http: int
    grpc: str
    type: str


class InferDeckError(Exception):
    """Base of all errors that cross an edge.

    ``message`` is for the person who caused or sees it, ``param`` names the field, ``hint`` is a way out (a command
    where there is one), ``code`` overrides the OpenAI ``code`` where OpenAI has a word of its own.
    """

    status = Status(500, "INTERNAL", "server_error")
    default_reason = DropReason.INTERNAL_ERROR

    def __init__(
        self,
        message: str,
        *,
        reason: DropReason | None = None,
        param: str | None = None,
        code: str | None = None,
        hint: str = "",
        retry_after_s: float | None = None,
        retry: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason or self.default_reason
        self.param = param
        self.code = code or str(self.reason)
        self.hint = hint
        self.retry_after_s = retry_after_s
        self.retry = retry

    def __str__(self) -> str:
        return self.message


class RequestRefused(InferDeckError):
    status = Status(400, "INVALID_ARGUMENT", "invalid_request_error")
    default_reason = DropReason.INVALID_REQUEST


class InvalidRequest(RequestRefused):
    pass


class Unauthenticated(RequestRefused):
    status = Status(401, "UNAUTHENTICATED", "invalid_request_error")
    default_reason = DropReason.INVALID_API_KEY


class Forbidden(RequestRefused):
    status = Status(403, "PERMISSION_DENIED", "invalid_request_error")
    default_reason = DropReason.MODEL_NOT_ALLOWED


class NotFound(RequestRefused):
    status = Status(404, "NOT_FOUND", "invalid_request_error")
    default_reason = DropReason.NOT_FOUND


class MethodNotAllowed(RequestRefused):
    status = Status(405, "UNIMPLEMENTED", "invalid_request_error")
    default_reason = DropReason.METHOD_NOT_ALLOWED


class RequestTimeout(RequestRefused):
    status = Status(408, "DEADLINE_EXCEEDED", "invalid_request_error")
    default_reason = DropReason.REQUEST_TIMEOUT


class Conflict(RequestRefused):
    status = Status(409, "FAILED_PRECONDITION", "invalid_request_error")
    default_reason = DropReason.CONFLICT


class TooLarge(RequestRefused):
    status = Status(413, "OUT_OF_RANGE", "invalid_request_error")
    default_reason = DropReason.REQUEST_TOO_LARGE


class UnsupportedMediaType(RequestRefused):
    status = Status(415, "INVALID_ARGUMENT", "invalid_request_error")
    default_reason = DropReason.UNSUPPORTED_MEDIA_TYPE


class HeadersTooLarge(RequestRefused):
    status = Status(431, "OUT_OF_RANGE", "invalid_request_error")
    default_reason = DropReason.HEADERS_TOO_LARGE


class Throttled(RequestRefused):
    """429: over a limit, or shed by tier."""

    status = Status(429, "RESOURCE_EXHAUSTED", "requests")
    default_reason = DropReason.RATE_LIMIT_EXCEEDED


class TokensThrottled(Throttled):
    """429: over a limit of tokens."""

    status = Status(429, "RESOURCE_EXHAUSTED", "tokens")


class Unavailable(InferDeckError):
    """503: ours, and it passes. Carries Retry-After."""

    status = Status(503, "UNAVAILABLE", "server_error")
    default_reason = DropReason.NO_CAPACITY


class RequestCancelled(InferDeckError):
    status = Status(499, "CANCELLED", "server_error")
    default_reason = DropReason.REQUEST_CANCELLED


class WorkerLost(InferDeckError):
    status = Status(502, "ABORTED", "server_error")
    default_reason = DropReason.WORKER_LOST


class InternalError(InferDeckError):
    pass


class StoreFull(InferDeckError):
    """507: somebody has to make room on the store's disk; until then it passes for nobody who asks again."""

    status = Status(507, "RESOURCE_EXHAUSTED", "server_error")
    default_reason = DropReason.STORE_FULL


class SettingsError(InferDeckError):
    """A wrong setting: ``param`` is the dotted key, the message names the file and the line."""


_BY_REASON: dict[str, type[InferDeckError]] = {
    DropReason.INVALID_REQUEST: InvalidRequest,
    DropReason.CONTEXT_LENGTH_EXCEEDED: InvalidRequest,
    DropReason.INVALID_API_KEY: Unauthenticated,
    DropReason.MODEL_NOT_ALLOWED: Forbidden,
    DropReason.NOT_AN_OPERATOR: Forbidden,
    DropReason.ROLE_TOO_LOW: Forbidden,
    DropReason.WRONG_PEER: Forbidden,
    DropReason.MODEL_NOT_FOUND: NotFound,
    DropReason.NOT_FOUND: NotFound,
    DropReason.METHOD_NOT_ALLOWED: MethodNotAllowed,
    DropReason.REQUEST_TIMEOUT: RequestTimeout,
    DropReason.CONFLICT: Conflict,
    DropReason.REQUEST_TOO_LARGE: TooLarge,
    DropReason.UNSUPPORTED_MEDIA_TYPE: UnsupportedMediaType,
    DropReason.HEADERS_TOO_LARGE: HeadersTooLarge,
    DropReason.RATE_LIMIT_EXCEEDED: Throttled,
    DropReason.TIER_THROTTLED: Throttled,
    DropReason.OVERLOADED: Unavailable,
    DropReason.NO_CAPACITY: Unavailable,
    DropReason.MODEL_LOADING: Unavailable,
    DropReason.DRAINING: Unavailable,
    DropReason.REQUEST_CANCELLED: RequestCancelled,
    DropReason.WORKER_LOST: WorkerLost,
    DropReason.ENGINE_DEAD: WorkerLost,
    DropReason.INTERNAL_ERROR: InternalError,
    DropReason.STORE_FULL: StoreFull,
}


def from_reason(reason: str, message: str, *, param: str | None = None, hint: str = "") -> InferDeckError:
    """The error a peer named by its drop reason; an unknown reason is an internal error that keeps the message."""
    cls = _BY_REASON.get(reason, InternalError)
    known = DropReason(reason) if reason in _BY_REASON else DropReason.INTERNAL_ERROR
    return cls(message, reason=known, param=param or None, hint=hint)
