"""A stream whose events say when their tokens passed by, for a caller that asked (``stream_options.include_hops``)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.worker import Delta, Done, TokenLogprob
from control_plane.gateway.answer.events import Events
from control_plane.gateway.answer.json_text import quoted
from control_plane.gateway.answer.sinks import Kept, KeptStreamSink, Owner, StreamSink, Tally
from control_plane.gateway.http.exchange import Exchange


class HopEvents:
    """The events of ``events``, those with text with ``hops`` beside their choices: of the last token in it, when it
    left its worker, its router and this gateway, in seconds since the call came, each by that process's wall clock, and
    how many ``tokens`` the answer had with it. ``since_unix`` is when the call came. ``way``: when it left the first
    two, None where nobody said."""

    fixed = False
    after = ""

    def __init__(self, events: Events, since_unix: float, clock: Callable[[], float] = time.time) -> None:
        self._events = events
        self._since = since_unix
        self._clock = clock
        self.tokens = 0
        self.way: tuple[float, float] | None = None

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
        if self.way is not None:
            worker, router = (each - self._since for each in self.way)
            way = f'"worker":{worker:.6f},"router":{router:.6f},'
        return f'"hops":{{"tokens":{self.tokens},{way}"gateway":{here:.6f}}}'


class HopStreamSink(StreamSink):
    """Hears of each delta's way before it comes."""

    __slots__ = ("_hops", "_way")

    def __init__(
        self,
        owner: Owner,
        exchange: Exchange,
        events: Events,
        tally: Tally,
        *,
        logprobs: bool,
        control_ids: frozenset[int],
        choices: int,
        turn: Kept | None = None,
    ) -> None:
        self._hops = HopEvents(events, exchange.arrival_unix)
        self._way: deque[tuple[float, float]] = deque()
        super().__init__(
            owner, exchange, self._hops, tally, logprobs=logprobs, control_ids=control_ids, choices=choices, turn=turn
        )

    def passed(self, worker_unix: float, router_unix: float) -> None:
        self._way.append((worker_unix, router_unix))

    def _take(self, delta: Delta) -> None:
        self._hops.way = self._way.popleft() if self._way else None
        self._hops.tokens = self.output_tokens
        super()._take(delta)


class KeptHopStreamSink(HopStreamSink, KeptStreamSink):
    """Keeps each piece of text before it is sent."""

    __slots__ = ()
