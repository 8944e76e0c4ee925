"""A named way of choosing, and the record of each choice it made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from control_plane.contracts.routing import BUILT_IN, RoutingProfile
from control_plane.router.scheduling.candidate import Ask, Candidate
from control_plane.router.scheduling.filters import USABLE
from control_plane.router.scheduling.interfaces import Filter, Picker, Scorer
from control_plane.router.scheduling.pickers import MaxRandomTies, RoundRobin, Softmax
from control_plane.router.scheduling.scorers.even_load import EvenLoad
from control_plane.router.scheduling.scorers.inflight_tokens import InflightTokens
from control_plane.router.scheduling.scorers.kv_headroom import KvHeadroom
from control_plane.router.scheduling.scorers.prefix_cache import PrefixCache
from control_plane.router.scheduling.scorers.queue_depth import QueueDepth
from control_plane.router.scheduling.scorers.recent_work import RecentWork
from control_plane.router.scheduling.scorers.session_affinity import SessionAffinity

SCORERS: Final[Mapping[str, Callable[[], Scorer]]] = {
    scorer.name: scorer
    for scorer in (PrefixCache, EvenLoad, InflightTokens, QueueDepth, KvHeadroom, RecentWork, SessionAffinity)
}
"""Every scorer that a profile can weigh, by name."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One choice: who was picked, what everyone scored, who was left out and why.

    ``kept`` are those that passed the filters; ``columns`` has one list per scorer, ``weighted`` the weighted means,
    all in the order of ``kept`` and from 0 to 1. ``rejected`` has the name of each filter that left somebody out, and
    whom.
    """

    profile: str
    model: str
    chosen: Candidate | None
    kept: Sequence[Candidate] = ()
    scorers: tuple[str, ...] = ()
    columns: Sequence[Sequence[float]] = ()
    weighted: Sequence[float] = ()
    rejected: Sequence[tuple[str, Sequence[Candidate]]] = ()

    @property
    def left_out(self) -> dict[str, str]:
        """Worker id → name of the filter."""
        return {candidate.worker_id: reason for reason, candidates in self.rejected for candidate in candidates}

    @property
    def scores(self) -> dict[str, tuple[float, ...]]:
        """Worker id → one score per scorer."""
        rows = zip(*self.columns, strict=True) if self.columns else [()] * len(self.kept)
        return {candidate.worker_id: row for candidate, row in zip(self.kept, rows, strict=True)}

    @property
    def totals(self) -> dict[str, float]:
        """Worker id → weighted mean of its scores."""
        return {candidate.worker_id: total for candidate, total in zip(self.kept, self.weighted, strict=True)}


@dataclass(frozen=True, slots=True)
class Profile:
    """Filters → weighted scorers, at least one → picker. Weights are positive."""

    name: str
    scorers: tuple[tuple[Scorer, float], ...]
    picker: Picker
    filters: tuple[Filter, ...] = USABLE

    @property
    def temperature(self) -> float:
        """0 for a picker that has none."""
        return self.picker.temperature if isinstance(self.picker, Softmax) else 0.0

    def decide(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> Decision:
        rejected: list[tuple[str, Sequence[Candidate]]] = []
        kept: Sequence[Candidate] = candidates
        for rule in self.filters:
            passed = rule.keep(ask, kept, now)
            if len(passed) != len(kept):
                stays = set(map(id, passed))
                rejected.append((rule.name, [c for c in kept if id(c) not in stays]))
            kept = passed
        if not kept:
            return Decision(self.name, ask.model, None, rejected=rejected)
        columns = [scorer.score(ask, kept, now) for scorer, _ in self.scorers]
        weighted = weighted_means(columns, [weight for _, weight in self.scorers])
        return Decision(
            self.name,
            ask.model,
            self.picker.pick(ask, kept, weighted),
            kept,
            tuple(scorer.name for scorer, _ in self.scorers),
            columns,
            weighted,
            rejected,
        )


def weighted_means(columns: Sequence[Sequence[float]], weights: Sequence[float]) -> Sequence[float]:
    """The weighted mean of each row; there is at least one column."""
    if len(columns) == 1:
        return columns[0]
    whole = sum(weights)
    means = [score * (weights[0] / whole) for score in columns[0]]
    # A column of zeros adds nothing: of a session where there is none, of a prompt that nobody has cached.
    rest = [(column, weight / whole) for column, weight in zip(columns[1:], weights[1:], strict=True) if any(column)]
    while len(rest) > 1:  # two at a time: there may be hundreds of rows
        (one, a), (two, b), *rest = rest
        means = [mean + x * a + y * b for mean, x, y in zip(means, one, two, strict=True)]
    for column, share in rest:
        means = [mean + score * share for mean, score in zip(means, column, strict=True)]
    return means


def build(name: str, routing: RoutingProfile, rng: Random) -> Profile:
    """The profile that is described. Raises KeyError for a scorer or picker of another version."""
    if unknown := routing.weights.keys() - SCORERS.keys():
        raise KeyError(", ".join(sorted(unknown)))
    weighed = tuple((make(), routing.weights[scorer]) for scorer, make in SCORERS.items() if scorer in routing.weights)
    return Profile(name, weighed, _PICKERS[routing.picker](rng, routing))


_PICKERS: Final[Mapping[str, Callable[[Random, RoutingProfile], Picker]]] = {
    "max": lambda rng, _: MaxRandomTies(rng),
    "softmax": lambda rng, routing: Softmax(rng, routing.temperature),
    "round_robin": lambda _, __: RoundRobin(),
}

PROFILES: Final[Mapping[str, Callable[[Random], Profile]]] = {
    name: partial(build, name, routing) for name, routing in BUILT_IN.items()
}
"""Every profile that can be named in the settings."""
