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
_WHOLE_LINES: Final = 9
"""Of an answer in one piece."""


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
    """Nothing is wider than ``room`` cells. Each event is cut to what differs from one to the next."""
    yield fit(f"> {'GET' if body is None else 'POST'} {path}", room)
    if body is not None:
        yield from (f"> {line}" for line in wrap(literal(json.dumps(_short(body), ensure_ascii=False)), room - 2))
    yield ""
    yield f"< {answer.status or 'no answer'}"
    for name in _HEADERS:
        if name in answer.headers:
            yield fit(literal(f"< {name}: {answer.headers[name]}"), room)
    if not answer.events and answer.raw:
        whole = wrap(literal(answer.raw.decode("utf-8", "replace")), room - 2)
        yield from (f"< {line}" for line in whole[:_WHOLE_LINES])
        if len(whole) > _WHOLE_LINES:
            yield f"  … {len(whole) - _WHOLE_LINES} lines more"
    yield from (_event_line(data, at - answer.started, room) for data, at in answer.first)
    hidden = answer.events - len(answer.first) - len(answer.last)
    if hidden:
        yield f"  … {figures.plural(hidden, 'event')} more"
    yield from (_event_line(data, at - answer.started, room) for data, at in answer.last)


def _event_line(data: bytes, after_s: float, room: int) -> str:
    return fit(f"< {figures.seconds(after_s):>7}  data: {literal(_told(data))}", room)


def _told(data: bytes) -> str:
    """An event without what all events of the stream have in common."""
    try:
        event = json.loads(data)
    except ValueError:
        return data.decode("utf-8", "replace")
    if not isinstance(event, dict):
        return json.dumps(event)
    kept = {name: event[name] for name in ("choices", "usage", "error") if event.get(name)}
    for choice in kept.get("choices", ()):
        for name in ("index", "logprobs"):
            choice.pop(name, None)
        if choice.get("finish_reason") is None:
            choice.pop("finish_reason", None)
    return "{… " + json.dumps(kept, ensure_ascii=False)[1:]


def _short(body: Mapping[str, Any]) -> dict[str, Any]:
    """Of many token ids the first ones are enough."""
    prompt = body.get("prompt")
    if not isinstance(prompt, list):
        return dict(body)
    return {**body, "prompt": [*prompt[:3], f"… {len(prompt)} token ids"]}
