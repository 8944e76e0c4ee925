"""The choice of a model as a running router makes it: with its own view of what is healthy, off the loop where a
prompt is long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from random import Random
from typing import Final, Protocol

from control_plane.contracts.complexity_rule import ComplexityRule
from control_plane.contracts.errors import InferDeckError, InternalError
from control_plane.contracts.model_choice import ModelAsk, ModelChoice, PromptText, Score
from control_plane.contracts.model_routes import ModelRoute, ModelRoutes
from control_plane.router import refusals
from control_plane.router.complexity import score
from control_plane.router.model_selection import ModelSelection

LOOP_CHARACTERS: Final = 1024
"""Longer texts are scored in a thread; this many take a tenth of a millisecond or two."""

_log = logging.getLogger(__name__)

Answer = Callable[[ModelChoice | InferDeckError], None]


class Served(Protocol):
    """Which models there are; what ``catalogue.Catalogue`` tells."""

    @property
    def names(self) -> frozenset[str] | None: ...

    def knows(self, name: str) -> bool: ...

    def serves(self, name: str) -> bool: ...


class Selector:
    """Used on the event loop."""

    def __init__(self, catalogue: Served, rng: Random) -> None:
        self._catalogue = catalogue
        self._rng = rng
        self._told = ModelRoutes()
        self._in_force: tuple[frozenset[str], ModelRoutes] | None = None

    def take(self, routes: Mapping[str, ModelRoute]) -> None:
        """The policy's routes from now on."""
        self._told = ModelRoutes(routes)
        self._in_force = None

    def routes(self) -> ModelRoutes | None:
        """Those in force; None while the fleet has not said which models there are."""
        names = self._catalogue.names
        if names is None:
            return None
        if self._in_force is None or self._in_force[0] is not names:
            self._in_force = names, self._told.among(names)
        return self._in_force[1]

    def select(self, ask: ModelAsk, then: Answer) -> None:
        """See ``contracts.call.Router``."""
        routes = self.routes()
        if routes is None:
            then(refusals.not_joined())
            return
        if not ask.override and routes.get(ask.model) is None and self._catalogue.knows(ask.model):
            then(ModelChoice(ask.model, ask.model))  # what most calls ask for
            return
        selection = self._selection(routes)

        def choose(scores: Mapping[str, Score] | InferDeckError) -> None:
            try:
                if isinstance(scores, InferDeckError):
                    raise scores
                answer: ModelChoice | InferDeckError = selection.choose(ask, scores)
            except InferDeckError as error:
                answer = error
            then(answer)

        _score(ask, selection.scored(ask), choose)

    def instead(self, ask: ModelAsk, chosen: ModelChoice, then: Callable[[ModelChoice | None], None]) -> None:
        """See ``contracts.call.Router``."""
        routes = self.routes()
        if routes is None or not routes.falls_back(chosen) or self._catalogue.serves(chosen.model):
            then(None)
            return
        selection = self._selection(routes)

        def choose(scores: Mapping[str, Score] | InferDeckError) -> None:
            then(None if isinstance(scores, InferDeckError) else selection.instead(ask, chosen, scores))

        _score(ask, selection.scored(ask, chosen), choose)

    def _selection(self, routes: ModelRoutes) -> ModelSelection:
        return ModelSelection(routes, self._catalogue.knows, self._catalogue.serves, self._rng)


def _score(
    ask: ModelAsk,
    rules: Mapping[str, ComplexityRule],
    then: Callable[[Mapping[str, Score] | InferDeckError], None],
) -> None:
    """How hard the call is by each of the rules; at once where that takes no time."""
    if not rules:
        then({})
        return
    prompt = ask.prompt()
    if len(prompt.asked) <= LOOP_CHARACTERS:
        then(_scores(ask, prompt, rules))
        return

    def scored(work: asyncio.Future[dict[str, Score]]) -> None:
        if work.cancelled():
            return
        if (error := work.exception()) is not None:
            _log.error("a prompt could not be scored: %s", type(error).__name__)
            then(InternalError("The model could not be chosen."))
        else:
            then(work.result())

    work = asyncio.get_running_loop().run_in_executor(None, _scores, ask, prompt, rules)
    work.add_done_callback(scored)


def _scores(ask: ModelAsk, prompt: PromptText, rules: Mapping[str, ComplexityRule]) -> dict[str, Score]:
    return {name: score(prompt, ask.max_tokens, rule, in_full=ask.in_full) for name, rule in rules.items()}
