"""A stream whose events say when their tokens passed by, for a caller that asked (``stream_options.include_hops``)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.worker import Delta, Done, TokenLogprob
from control_plane.gateway.answer.events import Events
from control_plane.gateway.answer.json_text import quoted
from control_plane.gateway.answer.stream_sink import KeptStreamSink, StreamSink


class HopEvents:
    """The events of ``events``, those with text with ``hops`` beside their choices: of the last token in it, when it
    left its worker, its router and this gateway, in seconds since the call came, each by that process's wall clock, and
    how many ``tokens`` the answer had with it. ``since_unix`` is when the call came."""

    fixed = False
    after = ""

    def __init__(self, events: Events, since_unix: float, clock: Callable[[], float] = time.time) -> None:
        self._events = events
        self._since = since_unix
        self._clock = clock
        self._ways: deque[tuple[float, float]] = deque()
        self._way: tuple[float, float] | None = None
        self._tokens = 0

    def passed(self, worker_unix: float, router_unix: float) -> None:
        """When the next delta that is not told of yet left the first two. Without this they are not told."""
        self._ways.append((worker_unix, router_unix))

    def next(self, tokens: int) -> None:
        """The next delta's events are made now; the answer has ``tokens`` with it."""
        self._way = self._ways.popleft() if self._ways else None
        self._tokens = tokens

    def before(self, choice: int) -> str:
        return ""

    def opening(self, choice: int) -> str:
        return self._events.opening(choice)

    def with_logprobs(self, choice: int, text: str, logprobs: Sequence[TokenLogprob]) -> str:
        inner = self._events
        if logprobs or not inner.fixed:
            event = inner.with_logprobs(choice, text, logprobs)
        else:
            event = inner.before(choice) + quoted(text) + inner.after
        return f"{event[:-3]},{self._hops()}}}\n\n"

    def closing(self, choice: int, finish: str) -> str:
        return self._events.closing(choice, finish)

    def ending(self, done: Done) -> str:
        return self._events.ending(done)

    def failure(self, error: InferDeckError) -> bytes:
        return self._events.failure(error)

    def _hops(self) -> str:
        here, way = self._clock() - self._since, ""
        if self._way is not None:
            worker, router = (each - self._since for each in self._way)
            way = f'"worker":{worker:.6f},"router":{router:.6f},'
        return f'"hops":{{"tokens":{self._tokens},{way}"gateway":{here:.6f}}}'


class HopStreamSink(StreamSink[HopEvents]):
    """Hears of each delta's way before it comes."""

    __slots__ = ()

    def passed(self, worker_unix: float, router_unix: float) -> None:
        self._events.passed(worker_unix, router_unix)

    def _take(self, delta: Delta) -> None:
        self._events.next(self.output_tokens)
        super()._take(delta)


class KeptHopStreamSink(HopStreamSink, KeptStreamSink[HopEvents]):
    """Keeps each piece of text before it is sent."""

    __slots__ = ()
