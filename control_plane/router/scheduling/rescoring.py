"""What decisions that were made would have been under another profile. Pure.

Each one is scored again with the loads as they were when it was made, so that it stands for itself: had an earlier one
gone elsewhere, the loads of the later ones would have been others, and nobody can know them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from control_plane.contracts.decision import MovedView, RescoredView, WorkerShare
from control_plane.contracts.routing import RoutingProfile
from control_plane.router.scheduling.candidate import Candidate
from control_plane.router.scheduling.kept import Kept
from control_plane.router.scheduling.pickers import RoundRobin, Softmax, chances
from control_plane.router.scheduling.profile import Profile, build, weighted_means

MOVED_TOLD: Final = 100

_SAME: Final = 1e-9
"""Totals that differ by less are equal: they are sums of products in another order."""


@dataclass(slots=True)
class _Share:
    requests: float = 0.0
    requests_again: float = 0.0
    tokens: float = 0.0
    tokens_again: float = 0.0


@dataclass(slots=True)
class _Sums:
    partial: int = 0
    elsewhere: float = 0.0
    moved: list[MovedView] = field(default_factory=list)
    shares: dict[str, _Share] = field(default_factory=dict)

    def share(self, worker_id: str) -> _Share:
        return self.shares.setdefault(worker_id, _Share())


def rescored(router_id: str, decisions: Iterable[Kept], routing: RoutingProfile) -> RescoredView:
    """Those of the decisions that picked somebody, again. Raises KeyError for a scorer that this version has not."""
    profile = build("", routing, Random(0))
    sums, count = _Sums(), 0
    for kept in decisions:
        if kept.chosen:
            count += 1
            _add(sums, kept, profile)
    return RescoredView(
        router_id,
        count,
        sums.partial,
        sums.elsewhere,
        tuple(sums.moved[-MOVED_TOLD:]),
        {
            name: WorkerShare(share.requests, share.requests_again, share.tokens, share.tokens_again)
            for name, share in sorted(sums.shares.items())
        },
    )


def totals_again(kept: Kept, profile: Profile, candidates: Sequence[Candidate]) -> Sequence[float]:
    """One total for each row. What was scored then is taken as it was: it was scored among all candidates."""
    then = {scorer.name: index for index, (scorer, _) in enumerate(kept.profile.scorers)}
    columns: list[Sequence[float]] = []
    for scorer, _ in profile.scorers:
        index = then.get(scorer.name)
        if index is None:
            columns.append(scorer.score(kept.ask, candidates, kept.now))
        else:
            columns.append(kept.columns[index])
    return weighted_means(columns, [weight for _, weight in profile.scorers])


def _add(sums: _Sums, kept: Kept, profile: Profile) -> None:
    candidates = kept.again()
    totals = totals_again(kept, profile, candidates)
    actual = next(index for index, each in enumerate(candidates) if each.worker_id == kept.chosen)
    odds = _odds(kept, profile, candidates, totals, actual)
    sums.partial += kept.candidates > len(candidates)
    tokens = kept.ask.expected_tokens
    was = sums.share(kept.chosen)
    was.requests += 1
    was.tokens += tokens
    for candidate, chance in zip(candidates, odds, strict=True):
        if chance:
            share = sums.share(candidate.worker_id)
            share.requests_again += chance
            share.tokens_again += chance * tokens
    elsewhere = 1.0 - odds[actual]
    sums.elsewhere += elsewhere
    likeliest = max(range(len(odds)), key=odds.__getitem__)
    if likeliest != actual and elsewhere > 0.5:
        sums.moved.append(
            MovedView(
                kept.number,
                kept.attempt.request_id,
                kept.attempt.number,
                kept.attempt.at_unix,
                kept.ask.model,
                kept.chosen,
                candidates[likeliest].worker_id,
                totals[actual],
                totals[likeliest],
                elsewhere,
            )
        )


def _odds(
    kept: Kept, profile: Profile, candidates: Sequence[Candidate], totals: Sequence[float], actual: int
) -> list[float]:
    """How likely each would have been picked. One that is among the best would have stayed where it went: which of
    several best it is, is drawn."""
    if isinstance(profile.picker, Softmax):
        return chances(totals, profile.picker.temperature)
    if isinstance(profile.picker, RoundRobin):
        chosen = profile.picker.pick(kept.ask, candidates, totals)
        return [float(each is chosen) for each in candidates]
    best = max(totals) - _SAME
    if totals[actual] >= best:
        return [float(index == actual) for index in range(len(totals))]
    ties = [total >= best for total in totals]
    return [tie / sum(ties) for tie in ties]
