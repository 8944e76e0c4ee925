"""Where a router's deltas become an answer: a stream of events, or one body.

Both are called by the router once per token or step; a stream writes its event in that very call. No task is woken.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

from control_plane.contracts.errors import InferDeckError, InternalError, RequestCancelled
from control_plane.contracts.worker import Delta, Done, Finish, FinishReason, TokenLogprob
from control_plane.gateway.answer.bodies import Body, Choice
from control_plane.gateway.answer.events import DONE_EVENT, Events
from control_plane.gateway.answer.json_text import quoted
from control_plane.gateway.answer.logprobs import Logprobs, text_tokens
from control_plane.gateway.error_body import error_event
from control_plane.gateway.http.exchange import Exchange

log = logging.getLogger(__name__)

STREAM_HEADERS = b"content-type: text/event-stream\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n"

MAX_HELD = 1024 * 1024
"""What is kept for a reader that has stopped reading, in characters and what else costs like them; at more, it is
dropped."""

_DELTA_COST = 16
_LOGPROB_COST = 256

_FINISH = {FinishReason.STOP: "stop", FinishReason.LENGTH: "length"}


class Tally(Protocol):
    """Where tokens are counted as they come."""

    output_tokens: int


class Owner(Protocol):
    """The call that an answer belongs to."""

    def ended(self) -> None:
        """Everything is written. Called once."""
        ...

    def stop(self) -> None:
        """The answer cannot go on; end the generation."""
        ...


class Sink:
    """What both kinds share: exactly one end, and no exception back to the router. ``output_tokens`` are those that
    came, and in the end those that the worker has counted; ``whole``: the answer is."""

    __slots__ = (
        "_control_ids",
        "_exchange",
        "_logprobs",
        "_open",
        "_owner",
        "_tally",
        "first_token_mono",
        "output_tokens",
        "whole",
    )

    def __init__(
        self,
        owner: Owner,
        exchange: Exchange,
        tally: Tally,
        *,
        logprobs: bool,
        control_ids: frozenset[int],
    ) -> None:
        self._owner = owner
        self._exchange = exchange
        self._tally = tally
        self._logprobs = logprobs
        self._control_ids = control_ids
        self._open = True
        self.first_token_mono = 0.0
        self.output_tokens = 0
        self.whole = False

    def delta(self, delta: Delta) -> None:
        if not self._open:
            return
        count = len(delta.token_ids)
        self._tally.output_tokens += count
        self.output_tokens += count
        if delta.done is not None:
            self.output_tokens = delta.done.output_tokens
        try:
            if delta.finish is not None and delta.finish.reason not in _FINISH:
                self.failed(RequestCancelled("The generation was ended before it was done."))
            else:
                self._take(delta)
        except Exception:
            log.exception("an answer could not be written", extra={"request_id": self._exchange.request_id})
            self._owner.stop()
            self.failed(InternalError("The answer could not be written."))

    def failed(self, error: InferDeckError) -> None:
        if not self._open:
            return
        self._open = False
        try:
            self._fail(error)
        except Exception:
            log.exception("a failure could not be written", extra={"request_id": self._exchange.request_id})
            self._exchange.abort()
        self._owner.ended()

    def close(self) -> None:
        """The client has left: whatever still comes is dropped."""
        self._open = False

    def _done(self) -> None:
        self._open = False
        self.whole = True
        self._owner.ended()

    def _take(self, delta: Delta) -> None:
        raise NotImplementedError

    def _fail(self, error: InferDeckError) -> None:
        raise NotImplementedError


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


class StreamSink(Sink):
    """Events, each written as its delta comes. ``choices`` is how many the call has."""

    __slots__ = ("_after", "_before", "_begun", "_choices", "_events", "_held", "_held_size", "_with_usage")

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
        with_usage: bool,
    ) -> None:
        super().__init__(owner, exchange, tally, logprobs=logprobs, control_ids=control_ids)
        self._choices = choices
        self._events = events
        self._with_usage = with_usage
        self._begun = False
        self._before = [events.before(choice) for choice in range(choices)]
        self._after = events.after
        self._held: list[_Held] = []
        self._held_size = 0
        exchange.on_drained = self._drained

    def _take(self, delta: Delta) -> None:
        exchange = self._exchange
        if exchange.paused or self._held:
            self._hold(delta)
        elif delta.finish is None and delta.done is None and self._begun and not self._logprobs:
            if delta.text:
                exchange.send((self._before[delta.choice] + quoted(delta.text) + self._after).encode())
        else:
            self._write(self._text_of(delta), delta.done)

    def _write(self, events: str, done: Done | None) -> None:
        payload = events.encode()
        if not self._begun:
            self._begun = True
            self.first_token_mono = time.monotonic()
            opening = "".join(map(self._events.opening, range(self._choices))).encode()
            self._exchange.begin(200, STREAM_HEADERS, opening + payload)
            payload = b""
        if done is not None:
            ending = self._events.usage(done).encode() + DONE_EVENT if self._with_usage else DONE_EVENT
            self._exchange.finish(payload + ending)
            self._done()
        elif payload:
            self._exchange.send(payload)

    def _text_of(self, delta: Delta) -> str:
        events = ""
        logprobs = text_tokens(delta.logprobs, self._control_ids) if self._logprobs else []
        if logprobs:
            events = self._events.with_logprobs(delta.choice, delta.text, logprobs)
        elif delta.text:
            events = self._before[delta.choice] + quoted(delta.text) + self._after
        if delta.finish is not None:
            events += self._events.closing(delta.choice, _FINISH[delta.finish.reason])
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
            self._exchange.finish(events.encode() + error_event(error))
        else:
            self._exchange.refuse(error)


class PlainSink(Sink):
    """One body, when everything is there. ``logprobs`` makes the log probabilities of a choice, where asked for."""

    __slots__ = ("_body", "_finish", "_parts", "_tokens")

    def __init__(
        self,
        owner: Owner,
        exchange: Exchange,
        body: Body,
        tally: Tally,
        *,
        logprobs: Callable[[], Logprobs] | None,
        control_ids: frozenset[int],
        choices: int,
    ) -> None:
        super().__init__(owner, exchange, tally, logprobs=logprobs is not None, control_ids=control_ids)
        self._body = body
        self._parts: list[list[str]] = [[] for _ in range(choices)]
        self._tokens = [logprobs() if logprobs is not None else None for _ in range(choices)]
        self._finish = ["stop"] * choices

    def _take(self, delta: Delta) -> None:
        choice = delta.choice
        if delta.text:
            self._parts[choice].append(delta.text)
        tokens = self._tokens[choice]
        if tokens is not None and delta.logprobs:
            tokens.add(text_tokens(delta.logprobs, self._control_ids))
        if delta.finish is not None:
            self._finish[choice] = _FINISH[delta.finish.reason]
        if delta.done is not None:
            choices = [
                Choice("".join(parts), finish, tokens)
                for parts, finish, tokens in zip(self._parts, self._finish, self._tokens, strict=True)
            ]
            self._exchange.respond(200, self._body(choices, delta.done).encode())
            self._done()

    def _fail(self, error: InferDeckError) -> None:
        self._exchange.refuse(error)
