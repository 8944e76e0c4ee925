"""The error tree over gRPC: a status code, and the rest in trailing metadata."""

from __future__ import annotations

from typing import Any, NoReturn

import grpc

from control_plane.contracts.errors import InferDeckError, InternalError, Unavailable, from_reason

REASON_KEY = "inferdeck-reason"
PARAM_KEY = "inferdeck-param"
HINT_KEY = "inferdeck-hint"

_MESSAGE_BYTES = 4096
_FIELD_BYTES = 1024
"""What a call may end with is 8 KiB in all, and a call that ends with more is refused by its own client; a caller's
words, which errors quote, can be longer."""


async def abort_with(context: grpc.aio.ServicerContext[Any, Any], error: InferDeckError) -> NoReturn:
    """End a server call with this error."""
    metadata = [(REASON_KEY, str(error.reason))]
    if error.param:
        metadata.append((PARAM_KEY, _printable(error.param)))
    if error.hint:
        metadata.append((HINT_KEY, _printable(error.hint)))
    await context.abort(grpc.StatusCode[error.status.grpc], _details(error.message), tuple(metadata))
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


def _printable(text: str) -> str:
    """A metadata value: of anything but printable ASCII in one, gRPC makes an error of its own."""
    line = text.replace("\n", " ")
    escaped = (char if _is_printable(char) else char.encode("unicode_escape").decode() for char in line)
    return _cut("".join(escaped), _FIELD_BYTES)


def _details(text: str) -> str:
    """A message, which may hold any character but a lone surrogate."""
    return _cut(text.encode(errors="backslashreplace").decode(), _MESSAGE_BYTES)


def _cut(text: str, room: int) -> str:
    """As much of the text as fits: gRPC writes three bytes for each of UTF-8 that is not printable ASCII."""
    for end, char in enumerate(text):
        room -= 1 if _is_printable(char) and char != "%" else 3 * len(char.encode())
        if room < 0:
            return text[:end] + "..."
    return text


def _is_printable(char: str) -> bool:
    return " " <= char <= "~"


def _text(value: str | bytes) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value
