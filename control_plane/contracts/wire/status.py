"""The error tree over gRPC: a status code, and the rest in trailing metadata."""

from __future__ import annotations

from typing import Any, NoReturn

import grpc

from control_plane.contracts.errors import InferDeckError, InternalError, Unavailable, from_reason

REASON_KEY = "inferdeck-reason"
PARAM_KEY = "inferdeck-param"
HINT_KEY = "inferdeck-hint"


async def abort_with(context: grpc.aio.ServicerContext[Any, Any], error: InferDeckError) -> NoReturn:
    """End a server call with this error."""
    metadata = [(REASON_KEY, str(error.reason))]
    if error.param:
        metadata.append((PARAM_KEY, _ascii(error.param)))
    if error.hint:
        metadata.append((HINT_KEY, _ascii(error.hint)))
    await context.abort(grpc.StatusCode[error.status.grpc], error.message, tuple(metadata))
    raise AssertionError("abort returned")


def error_from(call: grpc.aio.AioRpcError, *, peer: str = "", waited_s: float = 0.0) -> InferDeckError:
    """The error that a failed client call carries; one without a drop reason is about the connection itself.
    ``waited_s`` is how long an answer was waited for, where that has an end."""
    code, details = call.code(), call.details() or str(call.code())
    metadata = {str(key): _text(value) for key, value in tuple(call.trailing_metadata() or ())}
    if reason := metadata.get(REASON_KEY):
        return from_reason(reason, details, param=metadata.get(PARAM_KEY), hint=metadata.get(HINT_KEY, ""))
    at = f" at {peer}" if peer else ""
    if code is grpc.StatusCode.DEADLINE_EXCEEDED and waited_s:
        return Unavailable(f"gave up after {waited_s:g} s: no answer{at}")
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        return Unavailable(f"cannot reach the peer{at}: {details}")
    return InternalError(f"{code.name.lower()}{at}: {details}")


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode().replace("\n", " ")


def _text(value: str | bytes) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value
