"""Where a router's deltas become an answer: a stream of events, or one body.

Both are called by the router once per token or step; a stream writes its event in that very call. No task is woken.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from control_plane.contracts.conversation import TurnStatus
from control_plane.contracts.errors import (
    InferDeckError,
    InternalError,
    RequestCancelled,
    RequestRefused,
    Unavailable,
)
from control_plane.contracts.worker import Delta, Done, Finish, FinishReason, TokenLogprob
from control_plane.gateway.answer.bodies import Body, Choice
from control_plane.gateway.answer.events import Events
from control_plane.gateway.answer.json_text import quoted
from control_plane.gateway.answer.logprobs import Logprobs, text_tokens
from control_plane.gateway.http.exchange import Exchange

log = logging.getLogger(__name__)

STREAM_HEADERS = b"content-type: text/event-stream\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n"

MAX_HELD = 1024 * 1024
"""What is kept for a reader that has stopped reading, in characters and what else costs like them; at more, it is
dropped."""

_DELTA_COST = 16
_LOGPROB_COST = 256

CLIENT_LEFT = "client_disconnected"

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


class Kept(Protocol):
    """The turn that an answer is kept in; see ``gateway/history/kept_turn.py``."""

    @property
    def delivered(self) -> bool: ...

    def add(self, text: str) -> None: ...

    def end(
        self, status: TurnStatus, reason: str = "", done: Done | None = None, then: Callable[[], None] | None = None
    ) -> None: ...

    def withdraw(self, then: Callable[[], None] | None = None) -> None: ...


class Sink:
    """What both kinds share: exactly one end, and no exception back to the router. ``output_tokens`` are those that
    came, and in the end those that the worker has counted; ``whole``: the answer is. ``turn``: where the answer is
    kept, if it is; the last of it is written when that is stored."""

    __slots__ = (
        "_control_ids",
        "_exchange",
        "_logprobs",
        "_open",
        "_owner",
        "_tally",
        "_turn",
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
        turn: Kept | None = None,
    ) -> None:
        self._turn = turn
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
        turn = self._turn
        if turn is None:
            self._last(partial(self._fail, error))
        elif not turn.delivered and isinstance(error, (RequestRefused, Unavailable)):
            turn.withdraw(partial(self._last, partial(self._fail, error)))
        else:
            status = TurnStatus.CANCELLED if isinstance(error, RequestCancelled) else TurnStatus.FAILED
            write = partial(self._fail, not_again(error))
            turn.end(status, str(error.reason), then=partial(self._last, write))

    @property
    def waits(self) -> bool:
        """Whether nothing has come yet, an end included."""
        return self._open and not self.output_tokens and not self.first_token_mono

    def leave(self) -> None:
        """The answer will be another sink's: whatever still comes is dropped, and the turn goes on."""
        self._open = False

    def close(self) -> None:
        """The client has left: whatever still comes is dropped."""
        if self._open and self._turn is not None:
            self._turn.end(TurnStatus.CANCELLED, CLIENT_LEFT)
        self._open = False

    def _done(self, done: Done, finish: str, write: Callable[[], None]) -> None:
        """Everything is there."""
        self._open = False
        self.whole = True
        if self._turn is None:
            write()
            self._owner.ended()
        else:
            status = TurnStatus.INCOMPLETE if finish == "length" else TurnStatus.COMPLETED
            self._turn.end(status, "max_output_tokens" if finish == "length" else "", done, partial(self._last, write))

    def _last(self, write: Callable[[], None]) -> None:
        try:
            write()
        except Exception:
            log.exception("the end of an answer could not be written", extra={"request_id": self._exchange.request_id})
            self._exchange.abort()
        self._owner.ended()

    def _take(self, delta: Delta) -> None:
        raise NotImplementedError

    def _fail(self, error: InferDeckError) -> None:
        raise NotImplementedError


def not_again(error: InferDeckError) -> InferDeckError:
    """The error of a call whose messages are kept: sent once more they would be there twice."""
    told = copy.copy(error)
    told.retry = False
    return told


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

    __slots__ = (
        "_after",
        "_before",
        "_begun",
        "_choices",
        "_events",
        "_finish",
        "_held",
        "_held_size",
        "_opened",
        "_plain",
    )

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
        super().__init__(owner, exchange, tally, logprobs=logprobs, control_ids=control_ids, turn=turn)
        self._choices = choices
        self._events = events
        self._plain = events.fixed and not logprobs
        self._finish = ""
        self._begun = self._opened = False
        self._before = [events.before(choice) for choice in range(choices)]
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
            events = "".join(map(self._events.opening, range(self._choices)))
        logprobs = text_tokens(delta.logprobs, self._control_ids) if self._logprobs else []
        if logprobs or (delta.text and not self._events.fixed):
            events += self._events.with_logprobs(delta.choice, delta.text, logprobs)
        elif delta.text:
            events += self._before[delta.choice] + quoted(delta.text) + self._after
        if delta.finish is not None:
            self._finish = _FINISH[delta.finish.reason]
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


class KeptStreamSink(StreamSink):
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
        turn: Kept | None = None,
    ) -> None:
        super().__init__(owner, exchange, tally, logprobs=logprobs is not None, control_ids=control_ids, turn=turn)
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
            if self._turn is not None and choices[0].text:
                self._turn.add(choices[0].text)
            body = self._body(choices, delta.done).encode()
            self._done(delta.done, choices[0].finish, partial(self._exchange.respond, 200, body))

    def _fail(self, error: InferDeckError) -> None:
        self._exchange.refuse(error)
