"""A named way of choosing, and the record of each choice it made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from control_plane.router.scheduling.candidate import Ask, Candidate
from control_plane.router.scheduling.filters import USABLE
from control_plane.router.scheduling.interfaces import Filter, Picker, Scorer
from control_plane.router.scheduling.pickers import MaxRandomTies, RoundRobin
from control_plane.router.scheduling.scorers.inflight_tokens import InflightTokens


@dataclass(frozen=True, slots=True)
class Decision:
    """One choice: who was picked, what everyone scored, who was left out and why.

    ``scores`` is worker id → one score per scorer of the profile, ``totals`` is worker id → weighted mean, both 0-1.
    """

    profile: str
    model: str
    chosen: Candidate | None
    scorers: tuple[str, ...] = ()
    scores: dict[str, tuple[float, ...]] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Profile:
    """Filters → weighted scorers → picker. Weights are positive; the total is their weighted mean."""

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
        weights = [weight for _, weight in self.scorers]
        whole = sum(weights) or 1.0
        rows = list(zip(*columns, strict=True)) if columns else [()] * len(kept)
        totals = [sum(s * w for s, w in zip(row, weights, strict=True)) / whole for row in rows]
        return Decision(
            self.name,
            ask.model,
            self.picker.pick(ask, kept, totals),
            tuple(scorer.name for scorer, _ in self.scorers),
            {candidate.worker_id: row for candidate, row in zip(kept, rows, strict=True)},
            {candidate.worker_id: total for candidate, total in zip(kept, totals, strict=True)},
            left_out,
        )


def _least_load(rng: Random) -> Profile:
    return Profile("least_load", ((InflightTokens(), 1.0),), MaxRandomTies(rng))


def _round_robin(rng: Random) -> Profile:
    return Profile("round_robin", ((InflightTokens(), 1.0),), RoundRobin())


PROFILES: dict[str, Callable[[Random], Profile]] = {"least_load": _least_load, "round_robin": _round_robin}
"""Every profile that can be named in the settings."""
