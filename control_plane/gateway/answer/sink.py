"""Where a router's deltas become an answer, of whichever kind.

It is called by the router once per token or step; a stream writes its event in that very call. No task is woken.
"""

from __future__ import annotations

import copy
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from control_plane.contracts.conversation import TurnStatus
from control_plane.contracts.errors import (
    InferDeckError,
    InternalError,
    RequestCancelled,
    RequestRefused,
    Unavailable,
)
from control_plane.contracts.worker import Delta, Done, FinishReason
from control_plane.gateway.http.exchange import Exchange

log = logging.getLogger(__name__)

CLIENT_LEFT = "client_disconnected"

FINISH: Final = {FinishReason.STOP: "stop", FinishReason.LENGTH: "length"}


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


@dataclass(frozen=True, slots=True)
class Shape:
    """How an answer is to be: of how many ``choices``, with the log probabilities of its tokens or without. Those in
    ``control_ids`` are no text."""

    choices: int
    logprobs: bool
    control_ids: frozenset[int]


class Sink(ABC):
    """What both kinds share: exactly one end, and no exception back to the router. ``output_tokens`` are those that
    came, and in the end those that the worker has counted; ``whole``: the answer is. ``turn``: where the answer is
    kept, if it is; the last of it is written when that is stored."""

    __slots__ = (
        "_exchange",
        "_open",
        "_owner",
        "_shape",
        "_tally",
        "_turn",
        "first_token_mono",
        "output_tokens",
        "whole",
    )

    def __init__(self, owner: Owner, exchange: Exchange, tally: Tally, shape: Shape, turn: Kept | None = None) -> None:
        self._owner = owner
        self._exchange = exchange
        self._tally = tally
        self._shape = shape
        self._turn = turn
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
            if delta.finish is not None and delta.finish.reason not in FINISH:
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

    @abstractmethod
    def _take(self, delta: Delta) -> None: ...

    @abstractmethod
    def _fail(self, error: InferDeckError) -> None: ...


def not_again(error: InferDeckError) -> InferDeckError:
    """The error of a call whose messages are kept: sent once more they would be there twice."""
    told = copy.copy(error)
    told.retry = False
    return told
