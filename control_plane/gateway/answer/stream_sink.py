"""An answer as a stream of events."""

from __future__ import annotations

import time
from functools import partial
from typing import Generic, TypeVar

from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.worker import Delta, Done, Finish, TokenLogprob
from control_plane.gateway.answer.events import Events
from control_plane.gateway.answer.json_text import quoted
from control_plane.gateway.answer.logprobs import text_tokens
from control_plane.gateway.answer.sink import FINISH, Kept, Owner, Shape, Sink, Tally
from control_plane.gateway.http.exchange import Exchange

STREAM_HEADERS = b"content-type: text/event-stream\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n"

MAX_HELD = 1024 * 1024
"""What is kept for a reader that has stopped reading, in characters and what else costs like them; at more, it is
dropped."""

_DELTA_COST = 16
_LOGPROB_COST = 256

E = TypeVar("E", bound=Events)


class _Held:
    """Successive deltas of one choice, kept in parts: joining them as they come would copy all that is there."""

    __slots__ = ("choice", "done", "finish", "logprobs", "texts")

    def __init__(self, choice: int) -> None:
        self.choice = choice
        self.texts: list[str] = []
        self.logprobs: list[TokenLogprob] = []
        self.finish: Finish | None = None
        self.done: Done | None = None

    def add(self, delta: Delta) -> None:
        if delta.text:
            self.texts.append(delta.text)
        self.logprobs += delta.logprobs
        self.finish, self.done = delta.finish, delta.done

    def joined(self) -> Delta:
        return Delta(
            0,
            text="".join(self.texts),
            choice=self.choice,
            logprobs=tuple(self.logprobs),
            finish=self.finish,
            done=self.done,
        )


class StreamSink(Sink, Generic[E]):
    """Events, each written as its delta comes."""

    __slots__ = (
        "_after",
        "_before",
        "_begun",
        "_events",
        "_finish",
        "_held",
        "_held_size",
        "_opened",
        "_plain",
    )

    def __init__(
        self, owner: Owner, exchange: Exchange, events: E, tally: Tally, shape: Shape, turn: Kept | None = None
    ) -> None:
        super().__init__(owner, exchange, tally, shape, turn)
        self._events = events
        self._plain = events.fixed and not shape.logprobs
        self._finish = ""
        self._begun = self._opened = False
        self._before = [events.before(choice) for choice in range(shape.choices)]
        self._after = events.after
        self._held: list[_Held] = []
        self._held_size = 0
        exchange.on_drained = self._drained

    def _take(self, delta: Delta) -> None:
        exchange = self._exchange
        if exchange.paused or self._held:
            self._hold(delta)
        elif delta.finish is None and delta.done is None and self._begun and self._plain:
            if delta.text:
                exchange.send((self._before[delta.choice] + quoted(delta.text) + self._after).encode())
        else:
            self._write(self._text_of(delta), delta.done)

    def _write(self, events: str, done: Done | None) -> None:
        payload = events.encode()
        if not self._begun:
            self._begun = True
            self.first_token_mono = time.monotonic()
            self._exchange.begin(200, STREAM_HEADERS, payload)
            payload = b""
        if done is not None:
            payload += self._events.ending(done).encode()
            self._done(done, self._finish, partial(self._exchange.finish, payload))
        elif payload:
            self._exchange.send(payload)

    def _text_of(self, delta: Delta) -> str:
        events = ""
        if not self._opened:
            self._opened = True
            events = "".join(map(self._events.opening, range(self._shape.choices)))
        logprobs = text_tokens(delta.logprobs, self._shape.control_ids) if self._shape.logprobs else []
        if logprobs or (delta.text and not self._events.fixed):
            events += self._events.with_logprobs(delta.choice, delta.text, logprobs)
        elif delta.text:
            events += self._before[delta.choice] + quoted(delta.text) + self._after
        if delta.finish is not None:
            self._finish = FINISH[delta.finish.reason]
            events += self._events.closing(delta.choice, self._finish)
        return events

    def _hold(self, delta: Delta) -> None:
        """Keep what a slow reader cannot take yet."""
        last = self._held[-1] if self._held else None
        if last is None or last.choice != delta.choice or last.finish is not None:
            last = _Held(delta.choice)
            self._held.append(last)
        last.add(delta)
        self._held_size += _DELTA_COST + len(delta.text)
        self._held_size += sum(_LOGPROB_COST * (1 + len(entry.top)) for entry in delta.logprobs)
        if self._held_size > MAX_HELD:
            self._exchange.abort()

    def _drained(self) -> None:
        if self._held and self._open:
            events, done = self._release()
            self._write(events, done)

    def _release(self) -> tuple[str, Done | None]:
        held, self._held, self._held_size = self._held, [], 0
        return "".join(self._text_of(some.joined()) for some in held), held[-1].done if held else None

    def _fail(self, error: InferDeckError) -> None:
        if self._begun:
            events, _ = self._release()
            self._exchange.refused = error
            # The body is whole, and its head has promised that the connection goes on: a client may be using it again
            # already.
            self._exchange.finish(events.encode() + self._events.failure(error))
        else:
            self._exchange.refuse(error)


class KeptStreamSink(StreamSink[E]):
    """Keeps each piece of text before it is sent."""

    __slots__ = ()

    def _take(self, delta: Delta) -> None:
        if delta.text and self._turn is not None and not (self._exchange.paused or self._held):
            self._turn.add(delta.text)
        super()._take(delta)

    def failed(self, error: InferDeckError) -> None:
        if self._open and self._begun and self._held:
            # What is sent with the failure is delivered, and told to the turn before it ends.
            self._exchange.send(self._release()[0].encode())
        super().failed(error)

    def _release(self) -> tuple[str, Done | None]:
        if self._turn is not None:
            for held in self._held:
                self._turn.add("".join(held.texts))
        return super()._release()
