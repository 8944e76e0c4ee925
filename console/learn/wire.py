"""One call as it went over the wire: what was sent, and the events of its answer as they came."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from console import figures
from console.completion import Answer, Heard
from console.text import fit, literal, wrap

FIRST: Final = 4
LAST: Final = 4
"""Events that are shown of a stream's beginning, and of its end."""

_HEADERS: Final = (
    "content-type",
    "x-request-id",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-remaining-tokens",
    "retry-after",
    "www-authenticate",
)
_WHOLE_LINES: Final = 13
"""Of an answer in one piece."""

_EVENT_LINES: Final = 4
"""Of one event."""

_USAGE: Final = ("prompt_tokens", "completion_tokens", "total_tokens")


class WireAnswer(Answer):
    """An answer that keeps its first and last events, with their times, and counts all of them. ``hops``: what its
    events say of the way of their tokens, each with when it was read."""

    __slots__ = ("events", "first", "hops", "last")

    def __init__(self, on_text: Heard | None = None) -> None:
        super().__init__(on_text)
        self.events = 0
        self.first: list[tuple[bytes, float]] = []
        self.last: deque[tuple[bytes, float]] = deque(maxlen=LAST)
        self.hops: list[tuple[dict[str, float], float]] = []

    def _event(self, data: bytes, at: float) -> None:
        self.events += 1
        if self.events <= FIRST:
            self.first.append((data, at))
        else:
            self.last.append((data, at))
        super()._event(data, at)

    def _take(self, chunk: Any, at: float) -> None:
        if isinstance(chunk, dict) and isinstance(told := chunk.get("hops"), dict):
            self.hops.append((told, at))
        super()._take(chunk, at)


def wire_lines(path: str, body: Mapping[str, Any] | None, answer: WireAnswer, room: int) -> Iterator[str]:
    """Nothing is wider than ``room`` cells. Each event is told by what differs from one to the next, its text first."""
    yield fit(f"> {'GET' if body is None else 'POST'} {path}", room)
    if body is not None:
        yield from (f"> {line}" for line in wrap(literal(json.dumps(_short(body), ensure_ascii=False)), room - 2))
    yield ""
    yield f"< {answer.status or 'no answer'}"
    for name in _HEADERS:
        if name in answer.headers:
            yield fit(literal(f"< {name}: {answer.headers[name]}"), room)
    if not answer.events and answer.raw:
        whole = wrap(literal(_spaced(answer.raw)), room - 2)
        yield from (f"< {line}" for line in whole[:_WHOLE_LINES])
        if len(whole) > _WHOLE_LINES:
            yield f"  … {len(whole) - _WHOLE_LINES} lines more"
    for data, at in answer.first:
        yield from _event_lines(data, at - answer.started, room)
    hidden = answer.events - len(answer.first) - len(answer.last)
    if hidden:
        yield f"  … {figures.plural(hidden, 'event')} more"
    for data, at in answer.last:
        yield from _event_lines(data, at - answer.started, room)


def _event_lines(data: bytes, after_s: float, room: int) -> Iterator[str]:
    lead = f"< {figures.seconds(after_s):>7}  "
    first, *rest = wrap(f"data: {literal(_told(data))}", room - len(lead))
    yield lead + first
    yield from (" " * len(lead) + line for line in rest[: _EVENT_LINES - 1])
    if len(rest) >= _EVENT_LINES:
        yield " " * len(lead) + "…"


def _told(data: bytes) -> str:
    """An event without what all events of the stream have in common."""
    try:
        event = json.loads(data)
    except ValueError:
        return data.decode("utf-8", "replace")
    if not isinstance(event, dict):
        return json.dumps(event)
    choices = event.get("choices")
    if isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], dict):
        kept = _choice(choices[0])
    else:
        kept = {"choices": choices} if choices else {}
    if isinstance(usage := event.get("usage"), dict):
        kept["usage"] = {name: usage[name] for name in _USAGE if name in usage}
    if event.get("error"):
        kept["error"] = event["error"]
    return "… " + json.dumps(kept, ensure_ascii=False)[1:-1]


def _choice(choice: Mapping[str, Any]) -> dict[str, Any]:
    """Without what only says nothing."""
    kept = {name: value for name, value in choice.items() if name not in ("index", "logprobs")}
    kept = {name: value for name, value in kept.items() if value not in (None, {})}
    delta = kept.get("delta")
    if isinstance(delta, dict) and "content" in delta:
        kept["delta"] = {"content": delta["content"], **delta}
    return kept


def _spaced(raw: bytes) -> str:
    """JSON with spaces, at which its lines can end."""
    try:
        return json.dumps(json.loads(raw), ensure_ascii=False)
    except ValueError:
        return raw.decode("utf-8", "replace")


def _short(body: Mapping[str, Any]) -> dict[str, Any]:
    """Of many token ids the first ones are enough."""
    prompt = body.get("prompt")
    if not isinstance(prompt, list):
        return dict(body)
    return {**body, "prompt": [*prompt[:3], f"… {len(prompt)} token ids"]}
