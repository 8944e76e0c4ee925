"""A named way of choosing, and the record of each choice it made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import mul
from random import Random

from control_plane.router.scheduling.candidate import Ask, Candidate
from control_plane.router.scheduling.filters import USABLE
from control_plane.router.scheduling.interfaces import Filter, Picker, Scorer
from control_plane.router.scheduling.pickers import MaxRandomTies, RoundRobin
from control_plane.router.scheduling.scorers.inflight_tokens import InflightTokens
from control_plane.router.scheduling.scorers.kv_headroom import KvHeadroom
from control_plane.router.scheduling.scorers.queue_depth import QueueDepth


@dataclass(frozen=True, slots=True)
class Decision:
    """One choice: who was picked, what everyone scored, who was left out and why (worker id → name of the filter).

    ``kept`` are those that passed the filters; ``columns`` has one list per scorer, ``weighted`` the weighted means,
    all in the order of ``kept`` and from 0 to 1.
    """

    profile: str
    model: str
    chosen: Candidate | None
    kept: Sequence[Candidate] = ()
    scorers: tuple[str, ...] = ()
    columns: Sequence[Sequence[float]] = ()
    weighted: Sequence[float] = ()
    left_out: dict[str, str] = field(default_factory=dict)

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

    def decide(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> Decision:
        left_out: dict[str, str] = {}
        kept: Sequence[Candidate] = candidates
        for rule in self.filters:
            passed = rule.keep(ask, kept, now)
            if len(passed) != len(kept):
                stays = set(map(id, passed))
                left_out.update((c.worker_id, rule.name) for c in kept if id(c) not in stays)
            kept = passed
        if not kept:
            return Decision(self.name, ask.model, None, left_out=left_out)
        columns = [scorer.score(ask, kept, now) for scorer, _ in self.scorers]
        weighted = _means(columns, [weight for _, weight in self.scorers])
        return Decision(
            self.name,
            ask.model,
            self.picker.pick(ask, kept, weighted),
            kept,
            tuple(scorer.name for scorer, _ in self.scorers),
            columns,
            weighted,
            left_out,
        )


def _means(columns: Sequence[Sequence[float]], weights: Sequence[float]) -> Sequence[float]:
    """The weighted mean of each row."""
    if len(columns) == 1:
        return columns[0]
    whole = sum(weights)
    shares = [weight / whole for weight in weights]
    return [sum(map(mul, row, shares)) for row in zip(*columns, strict=True)]


def _least_load(rng: Random) -> Profile:
    return Profile("least_load", ((InflightTokens(), 1.0),), MaxRandomTies(rng))


def _balanced(rng: Random) -> Profile:
    """Also what workers say of themselves: for workers that several routers load, or whose KV cache fills first."""
    return Profile("balanced", ((InflightTokens(), 2.0), (QueueDepth(), 1.0), (KvHeadroom(), 1.0)), MaxRandomTies(rng))


def _round_robin(rng: Random) -> Profile:
    return Profile("round_robin", ((InflightTokens(), 1.0),), RoundRobin())


PROFILES: dict[str, Callable[[Random], Profile]] = {
    "least_load": _least_load,
    "balanced": _balanced,
    "round_robin": _round_robin,
}
"""Every profile that can be named in the settings."""
