from __future__ import annotations

import json

from control_plane.contracts.errors import (
    DropReason,
    InferDeckError,
    InvalidRequest,
    RequestCancelled,
    Throttled,
    Unauthenticated,
    Unavailable,
    WorkerLost,
)
from control_plane.gateway.error_body import error_body, error_event, error_headers


def headers(error: InferDeckError) -> dict[str, str]:
    lines = error_headers(error).decode().split("\r\n")
    assert lines.pop() == ""
    return dict(line.split(": ", 1) for line in lines)


def test_the_shape_of_a_body() -> None:
    error = InvalidRequest("bad", param="n", code="invalid_type")
    assert json.loads(error_body(error)) == {
        "error": {"message": "bad", "type": "invalid_request_error", "param": "n", "code": "invalid_type"}
    }
    assert json.loads(error_body(WorkerLost("gone")))["error"] == {
        "message": "gone",
        "type": "server_error",
        "param": None,
        "code": "worker_lost",
    }


def test_an_event_is_one_line_whatever_the_message() -> None:
    event = error_event(InvalidRequest("two\nlines\u2028and\x00more"))
    assert event.startswith(b"data: {")
    assert event.endswith(b"}\n\n")
    assert event.count(b"\n") == 2
    assert event.isascii()


def test_retry_after_is_whole_seconds_within_what_clients_obey() -> None:
    for seconds, shown in ((0.0, "1"), (0.2, "1"), (4.2, "5"), (600.0, "60")):
        assert headers(Throttled("x", retry_after_s=seconds)) == {"retry-after": shown}
    assert headers(Throttled("x", retry=False)) == {"retry-after": "60", "x-should-retry": "false"}
    drawn = {headers(Unavailable("x"))["retry-after"] for _ in range(200)}
    assert drawn == {"5", "6", "7", "8"}


def test_what_else_goes_with_an_error() -> None:
    assert headers(Unauthenticated("x")) == {"www-authenticate": "Bearer"}
    assert headers(RequestCancelled("x")) == {"x-should-retry": "false"}
    assert headers(RequestCancelled("x", retry=True)) == {"x-should-retry": "true"}
    assert headers(InvalidRequest("x", reason=DropReason.CONTEXT_LENGTH_EXCEEDED)) == {}
    assert headers(WorkerLost("x", retry=False)) == {"x-should-retry": "false"}
