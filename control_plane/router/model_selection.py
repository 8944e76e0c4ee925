"""Which model a call goes to, by the policy's routes and by what is healthy. Pure: chance comes in as ``rng``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from random import Random

from control_plane.contracts.complexity_rule import ComplexityRule
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.model_choice import LARGE, OVERRIDE, SMALL, ModelAsk, ModelChoice, Score
from control_plane.contracts.model_routes import ModelRoute, ModelRoutes
from control_plane.router import refusals
from control_plane.router.complexity import told


@dataclass(slots=True)
class _Way:
    """How a name came to a model: the names on the way, with a reason for each step. ``scored``: the last score that
    decided, and the threshold that it was held against."""

    model: str
    names: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    scored: tuple[Score, float] | None = None


@dataclass(frozen=True, slots=True)
class ModelSelection:
    """``routes`` are those in force. ``known``: whether a pool serves a model of this name, healthy or not;
    ``healthy``: whether it has a worker that can be picked."""

    routes: ModelRoutes
    known: Callable[[str], bool]
    healthy: Callable[[str], bool]
    rng: Random

    def choose(self, ask: ModelAsk, scores: Mapping[str, Score]) -> ModelChoice:
        """``scores`` by route, of every one that ``scored`` names.

        Raises NotFound for a name that leads to no model, InvalidRequest for a header that means nothing here.
        """
        name, reasons = ask.model, tuple[str, ...]()
        if ask.override:
            name = self._overridden(ask)
            reasons = (f"{OVERRIDE}: {_ascii(ask.override)}",)
        way = self._follow(name, (), ask.session, scores)
        taken, instead_of = way, ""
        if not self.healthy(way.model):
            other = self._fallback(way, {name}, ask.session, scores)
            if other is not None:
                taken, instead_of = other, way.model
                reasons += (
                    *way.reasons,
                    f"{_ascii(way.model)} has no healthy worker: fallback {_ascii(other.names[0])}",
                )
                reasons += other.reasons
        if taken is way:
            if not self.known(way.model):
                raise refusals.unknown_model(ask.model, way.model)
            reasons += way.reasons
        score, threshold = taken.scored or way.scored or (None, 0.0)
        return ModelChoice(ask.model, taken.model, "; ".join(reasons), instead_of, threshold, score, taken.names)

    def instead(self, ask: ModelAsk, chosen: ModelChoice, scores: Mapping[str, Score]) -> ModelChoice | None:
        """What the policy has for a call that waits for the model that was chosen, now that this one has no healthy
        worker; None where it has one, or the policy nothing. ``scores`` as for ``choose``, of the call and of what was
        chosen for it."""
        if self.healthy(chosen.model):
            return None
        try:
            name = self._overridden(ask) if ask.override else ask.model
        except InvalidRequest:
            return None  # the policy has changed since
        other = self._fallback(_Way(chosen.model, chosen.names), {name}, ask.session, scores)
        if other is None:
            return None
        turned = f"{_ascii(chosen.model)} has no healthy worker any more: fallback {_ascii(other.names[0])}"
        reasons = (*([chosen.reason] if chosen.reason else []), turned, *other.reasons)
        score, threshold = other.scored or (chosen.score, chosen.threshold)
        return ModelChoice(
            ask.model, other.model, "; ".join(reasons), chosen.model, threshold, score, (*chosen.names, *other.names)
        )

    def scored(self, ask: ModelAsk, chosen: ModelChoice | None = None) -> Mapping[str, ComplexityRule]:
        """The rules that ``choose``, or for what was ``chosen`` before ``instead``, may need, by the route that has
        them."""
        first = self.routes.side_of(ask.model, ask.override) or ask.override or ask.model
        rules: dict[str, ComplexityRule] = {}
        for name in (first, *((chosen.model, *chosen.names) if chosen is not None else ())):
            rules |= self.routes.scored(name)
        return rules

    def _overridden(self, ask: ModelAsk) -> str:
        """The name that the caller's header means."""
        side = self.routes.side_of(ask.model, ask.override)
        if side is not None:
            return side
        if self.known(ask.override) or self.routes.get(ask.override) is not None:
            return ask.override
        if ask.override in (SMALL, LARGE):
            raise _unsound(f"{ask.override} is a side of a route like auto, and {ask.model!r} is none.")
        raise _unsound(f"there is no model {ask.override!r}. It takes {SMALL}, {LARGE}, or a name of GET /v1/models.")

    def _follow(self, name: str, names: tuple[str, ...], session: str, scores: Mapping[str, Score]) -> _Way:
        """To a model, healthy or not. Names on the way already mean the models that are called so."""
        way = _Way(name)
        on_the_way = set(names)
        while (route := self.routes.get(name)) is not None and route.kind and name not in on_the_way:
            on_the_way.add(name)
            way.names += (name,)
            reason, name = self._step(name, route, session, scores, way)
            way.reasons += (reason,)
        way.model = name
        return way

    def _step(
        self, name: str, route: ModelRoute, session: str, scores: Mapping[str, Score], way: _Way
    ) -> tuple[str, str]:
        """Why it goes on, and where."""
        if route.kind == "alias":
            return f"{_ascii(name)} is {_ascii(route.target)}", route.target
        if route.kind == "split":
            side = _stuck(name, session, route.sides) if session else _drawn(self.rng, route.sides)
            whole = sum(route.split.values())
            how = "the same for this session" if session else "at random"
            return f"{_ascii(name)} gives {_ascii(side)} {route.split[side]} of {whole}, {how}", side
        score = scores[name]
        way.scored = score, route.threshold
        large = score.total >= route.threshold
        side = route.large if large else route.small
        held = f"score {score.total:.2f} {'>=' if large else '<'} {route.threshold:g}"
        return f"{_ascii(name)} takes the {LARGE if large else SMALL} one, {_ascii(side)}: {held} = {told(score)}", side

    def _fallback(self, way: _Way, tried: set[str], session: str, scores: Mapping[str, Score]) -> _Way | None:
        """The first healthy end of what the policy names for the model, or for a name that led to it, the last first;
        each name is tried once."""
        for name in dict.fromkeys((way.model, *reversed(way.names))):
            route = self.routes.get(name)
            for other in route.fallback if route is not None else ():
                mark = f"\0{name}" if other == name else other  # its own name means the model that it shadows
                if mark in tried:
                    continue
                tried.add(mark)
                found = self._follow(other, (name,), session, scores)
                found.names = found.names or (other,)
                if self.healthy(found.model):
                    return found
                further = self._fallback(found, tried, session, scores)
                if further is not None:
                    return further
        return None


def _stuck(name: str, session: str, sides: tuple[tuple[str, int], ...]) -> str:
    """The side of a split that this session always takes. When weights change, only as many sessions move as have to:
    each side draws a number of its own for the session, weighted, and the lowest wins (rendezvous hashing)."""

    def drawn(side: tuple[str, int]) -> float:
        digest = blake2b(f"{name}\0{session}\0{side[0]}".encode(), digest_size=8).digest()
        return -math.log((int.from_bytes(digest) + 1) / (2**64 + 1)) / side[1]

    return min((side for side in sides if side[1]), key=drawn)[0]


def _drawn(rng: Random, sides: tuple[tuple[str, int], ...]) -> str:
    return rng.choices([side for side, _ in sides], [weight for _, weight in sides])[0]


def _ascii(name: str) -> str:
    """A name in a line of ASCII, which is what a header can hold."""
    return name.encode("ascii", "backslashreplace").decode()


def _unsound(message: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid header '{OVERRIDE}': {message}", param=OVERRIDE, code="invalid_value")
