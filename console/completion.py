"""One call of an OpenAI endpoint with a stopwatch.

Times are ``time.monotonic()`` of this process. TTFT runs from the call's start (before it connects or waits for a
connection) to the first chunk that carries text; a role chunk is not a token. ITL is the gap between two successive
chunks that carry text. A token whose text the server holds back, such as half a character, comes with the next one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from console.http import Broken, Connections

Body = Mapping[str, Any]
Heard = Callable[[str, float], None]
"""Takes each piece of text with its time."""


class Answer:
    """What came back, and when. Complete when ``run`` has returned."""

    __slots__ = (
        "_events", "_raw", "_times", "done", "ended", "error_code", "error_message", "finish_reason", "headers",
        "on_text", "started", "status", "text", "usage",
    )  # fmt: skip

    def __init__(self, on_text: Heard | None = None) -> None:
        self.started = time.monotonic()
        self.ended = 0.0
        self.status = 0
        self.headers: dict[str, str] = {}
        self.text: list[str] = []
        self.finish_reason = ""
        self.usage: dict[str, Any] | None = None
        self.error_code = ""
        self.error_message = ""
        self.done = False
        self.on_text = on_text
        self._times: list[float] = []
        self._events: EventStream | None = None
        self._raw = bytearray()

    @property
    def ok(self) -> bool:
        """Answered in full, without an error."""
        return self.done and not self.error_code

    @property
    def raw(self) -> bytes:
        """The body as it came, of an answer that is no stream."""
        return bytes(self._raw)

    @property
    def token_times(self) -> list[float]:
        """When each piece of text came."""
        return self._times

    @property
    def ttft_s(self) -> float | None:
        return self._times[0] - self.started if self._times else None

    @property
    def gaps_s(self) -> list[float]:
        return [later - earlier for earlier, later in zip(self._times, self._times[1:], strict=False)]

    @property
    def output_tokens(self) -> int:
        """As the server counted them, else the pieces of text."""
        counted = (self.usage or {}).get("completion_tokens")
        return counted if isinstance(counted, int) else len(self._times)

    @property
    def prompt_tokens(self) -> int | None:
        counted = (self.usage or {}).get("prompt_tokens")
        return counted if isinstance(counted, int) else None

    @property
    def cached_tokens(self) -> int | None:
        details = (self.usage or {}).get("prompt_tokens_details")
        counted = details.get("cached_tokens") if isinstance(details, dict) else None
        return counted if isinstance(counted, int) else None

    async def run(self, connections: Connections, path: str, key: str, body: Body | None, request_id: str = "") -> None:
        """Make the call; without a body it only reads. Failures become ``error_code``, except Unreachable; cancelling
        it is what a client that leaves does. ``request_id`` names it in the platform."""
        headers = {"x-request-id": request_id} if request_id else {}
        method = "GET" if body is None else "POST"
        try:
            await connections.ask(connections.endpoint.request(method, path, key, body, headers), self)
            self._complete()
        except Broken as error:
            self._failed("connection_lost", str(error))
        finally:
            self.ended = time.monotonic()

    def head(self, status: int, headers: dict[str, str], at: float) -> None:
        self.status = status
        self.headers = headers
        if headers.get("content-type", "").startswith("text/event-stream"):
            self._events = EventStream(self._event)

    def body(self, data: bytes, at: float) -> None:
        if self._events is not None:
            self._events.feed(data, at)
        else:
            self._raw += data

    def _event(self, data: bytes, at: float) -> None:
        if data == b"[DONE]":
            self.done = True
            return
        try:
            chunk = json.loads(data)
        except ValueError:
            self._failed("bad_event", "an event that is not JSON")
            return
        self._take(chunk, at)

    def _take(self, chunk: Any, at: float) -> None:
        if not isinstance(chunk, dict):
            self._failed("bad_event", "an event that is no object")
            return
        if chunk.get("error"):
            self._failed(*_error_of(chunk["error"]))
        if isinstance(chunk.get("usage"), dict):
            self.usage = chunk["usage"]
        for choice in chunk.get("choices") or ():
            part = choice.get("delta") or choice.get("message") or choice
            text = part.get("content", part.get("text"))
            if text:
                self._times.append(at)
                self.text.append(text)
                if self.on_text is not None:
                    self.on_text(text, at)
            if choice.get("finish_reason"):
                self.finish_reason = choice["finish_reason"]

    def _complete(self) -> None:
        """The answer's bytes are all here."""
        now = time.monotonic()
        if self._events is not None:
            if not self.done and not self.error_code:
                self._failed("truncated", "the stream ended without [DONE]")
            return
        try:
            answer = json.loads(self._raw)
        except ValueError:
            self._failed(f"http_{self.status}", "an answer that is not JSON")
            return
        self._take(answer, now)
        if self.status != 200 and not self.error_code:
            self._failed(f"http_{self.status}", "refused without a reason")
        self.done = self.status == 200

    def _failed(self, code: str, message: str) -> None:
        if not self.error_code:
            self.error_code, self.error_message = code, message


def _error_of(error: Any) -> tuple[str, str]:
    if not isinstance(error, dict):
        return "error", str(error)
    return str(error.get("code") or error.get("type") or "error"), str(error.get("message") or "")


class EventStream:
    """Server-sent events out of bytes as they come, cut anywhere; only ``data`` matters here."""

    __slots__ = ("_heard", "_rest")

    def __init__(self, heard: Callable[[bytes, float], None]) -> None:
        self._heard = heard
        self._rest = b""

    def feed(self, data: bytes, at: float) -> None:
        if self._rest:
            data = self._rest + data
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        *events, self._rest = data.split(b"\n\n")
        for event in events:
            lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
            if lines:
                self._heard(b"\n".join(lines), at)
