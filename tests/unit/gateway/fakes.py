"""Stand-ins for what is on the other side of the parts under test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from control_plane.contracts.call import CallSink, RoutedCall, TokenizerBundle
from control_plane.contracts.complexity_rule import ComplexityRule
from control_plane.contracts.errors import InferDeckError, Unavailable
from control_plane.contracts.fleet import ModelView
from control_plane.contracts.model_choice import ModelAsk, ModelChoice, Score
from control_plane.contracts.model_routes import ModelRoutes
from control_plane.gateway.http.exchange import Exchange
from control_plane.router.complexity import score
from control_plane.router.model_selection import ModelSelection


async def until(condition: Callable[[], Any], timeout_s: float = 20.0) -> None:
    """Return when the condition holds; TimeoutError when it does not in time."""
    async with asyncio.timeout(timeout_s):
        while True:
            if condition():
                return
            await asyncio.sleep(0.002)


class Wire:
    """Takes the place of a connection: keeps what an exchange writes."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.aborted = False
        self.finished = False

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def common_headers(self, exchange: Exchange) -> bytes:
        return b""

    def release(self, exchange: Exchange) -> None:
        pass

    def done(self, exchange: Exchange) -> None:
        self.finished = True

    def abort(self) -> None:
        self.aborted = True

    @property
    def data(self) -> bytes:
        return b"".join(self.writes)


def exchange_on(wire: Wire, **fields: Any) -> Exchange:
    """A whole POST over HTTP/1.0, whose streamed body is not chunked and so can be read off the wire as it is."""
    exchange = Exchange(wire, b"POST", b"/", {}, 0.0, 0.0)
    exchange.complete = True
    exchange.chunked = False
    for name, value in fields.items():
        setattr(exchange, name, value)
    return exchange


class StubHandle:
    def __init__(self) -> None:
        self.worker_id = "w-1"
        self.retries = 0
        self.cancelled: list[str] = []
        self.used: Callable[[int], None] | None = None

    def cancel(self, reason: str, used: Callable[[int], None] | None = None) -> None:
        self.cancelled.append(reason)
        self.used = used


class Submitted:
    """A call that reached the router, with the means to answer it."""

    def __init__(self, call: RoutedCall, sink: CallSink) -> None:
        self.call = call
        self.sink = sink
        self.handle = StubHandle()


class StubRouter:
    """Keeps what is submitted; tests answer it. Models come from ``bundles``."""

    def __init__(self, bundles: dict[str, TokenizerBundle | InferDeckError]) -> None:
        self.bundles = bundles
        self.submitted: list[Submitted] = []
        self.refusal: InferDeckError | None = None
        self.is_ready = True
        self.asked: list[str] = []
        self.leading: ModelRoutes | None = ModelRoutes()
        self.sick: set[str] = set()

    def select(self, ask: ModelAsk, then: Callable[[ModelChoice | InferDeckError], None]) -> None:
        """At once; ``leading`` are the routes, None before the fleet has spoken, ``sick`` models without a worker."""
        if self.leading is None:
            then(Unavailable("not joined yet"))
            return
        try:
            selection = self._selection(self.leading)
            choice = selection.choose(ask, _scores(ask, selection.scored(ask)))
        except InferDeckError as error:
            then(error)
        else:
            then(choice)

    def instead(self, ask: ModelAsk, chosen: ModelChoice, then: Callable[[ModelChoice | None], None]) -> None:
        assert self.leading is not None
        selection = self._selection(self.leading)
        then(selection.instead(ask, chosen, _scores(ask, selection.scored(ask, chosen))))

    def _selection(self, leading: ModelRoutes) -> ModelSelection:
        return ModelSelection(leading, lambda name: name in self.bundles, lambda name: name not in self.sick, Random(1))

    def routes(self) -> ModelRoutes | None:
        return self.leading

    def submit(self, call: RoutedCall, sink: CallSink) -> StubHandle:
        if self.refusal is not None:
            raise self.refusal
        self.submitted.append(Submitted(call, sink))
        self.heard(self.submitted[-1])
        return self.submitted[-1].handle

    def heard(self, submitted: Submitted) -> None:
        """For subclasses that answer by themselves."""

    def models(self) -> list[ModelView]:
        return [ModelView(name, "pool", max_context=512, ready_workers=1) for name in self.bundles]

    def ready(self) -> bool:
        return self.is_ready

    async def tokenizer_files(self, model: str) -> TokenizerBundle:
        self.asked.append(model)
        found = self.bundles[model]
        if isinstance(found, InferDeckError):
            raise found
        return found


def _scores(ask: ModelAsk, rules: Mapping[str, ComplexityRule]) -> dict[str, Score]:
    return {name: score(ask.prompt(), ask.max_tokens, rule, in_full=ask.in_full) for name, rule in rules.items()}
