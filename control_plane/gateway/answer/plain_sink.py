"""An answer as one body."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.worker import Delta
from control_plane.gateway.answer.bodies import Body, Choice
from control_plane.gateway.answer.logprobs import Logprobs, text_tokens
from control_plane.gateway.answer.sink import FINISH, Kept, Owner, Shape, Sink, Tally
from control_plane.gateway.http.exchange import Exchange


class PlainSink(Sink):
    """One body, when everything is there. ``logprobs`` makes a choice's log probabilities, where its shape has them."""

    __slots__ = ("_body", "_finish", "_parts", "_tokens")

    def __init__(
        self,
        owner: Owner,
        exchange: Exchange,
        body: Body,
        tally: Tally,
        shape: Shape,
        logprobs: Callable[[], Logprobs],
        turn: Kept | None = None,
    ) -> None:
        super().__init__(owner, exchange, tally, shape, turn)
        self._body = body
        self._parts: list[list[str]] = [[] for _ in range(shape.choices)]
        self._tokens = [logprobs() if shape.logprobs else None for _ in range(shape.choices)]
        self._finish = ["stop"] * shape.choices

    def _take(self, delta: Delta) -> None:
        choice = delta.choice
        if delta.text:
            self._parts[choice].append(delta.text)
        tokens = self._tokens[choice]
        if tokens is not None and delta.logprobs:
            tokens.add(text_tokens(delta.logprobs, self._shape.control_ids))
        if delta.finish is not None:
            self._finish[choice] = FINISH[delta.finish.reason]
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
