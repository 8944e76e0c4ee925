"""An error of the tree as OpenAI's clients read it: a JSON body, headers, or an event of a stream."""

from __future__ import annotations

import json
import math
import random

from control_plane.contracts.errors import (
    InferDeckError,
    RequestCancelled,
    Throttled,
    Unauthenticated,
    Unavailable,
)

_LONGEST_S = 60
"""The longest wait a client is asked for; also what a call hears that can never fit: clients that know nothing of
``x-should-retry`` come back seldom then."""

_RETRY_AFTER_S = (5, 8)
"""Seconds between which a 503 without a better answer sends its callers away, so that they do not come back at once."""


def error_body(error: InferDeckError) -> bytes:
    """``{"error": {"message", "type", "param", "code"}}``."""
    return json.dumps(
        {"error": {"message": error.message, "type": error.status.type, "param": error.param, "code": error.code}},
        separators=(",", ":"),
    ).encode()


def error_event(error: InferDeckError) -> bytes:
    """The last event of a stream that failed after its first byte; no ``[DONE]`` follows."""
    return b"data: %b\n\n" % error_body(error)


def error_headers(error: InferDeckError) -> bytes:
    """Header lines, each ended by CRLF, that go with the error's status."""
    lines = b""
    if isinstance(error, Unauthenticated):
        lines += b"www-authenticate: Bearer\r\n"
    if isinstance(error, Unavailable | Throttled):
        lines += b"retry-after: %d\r\n" % _retry_after(error)
    retry = error.retry
    if retry is None and isinstance(error, RequestCancelled):
        retry = False
    if retry is not None:
        lines += b"x-should-retry: %b\r\n" % (b"true" if retry else b"false")
    return lines


def _retry_after(error: InferDeckError) -> int:
    """Whole seconds, rounded up, 1 to 60: clients ignore 0 and refuse long waits."""
    if error.retry_after_s is None:
        if error.retry is False:
            return _LONGEST_S
        return random.randint(*_RETRY_AFTER_S)
    return min(_LONGEST_S, max(1, math.ceil(error.retry_after_s)))
