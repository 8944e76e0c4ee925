"""Taking one candidate when all have their scores."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from random import Random

from control_plane.router.scheduling.candidate import Ask, Candidate


class MaxRandomTies:
    """The best score; among equals any, so that idle workers share the first calls."""

    name = "max"

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def pick(self, ask: Ask, candidates: Sequence[Candidate], totals: Sequence[float]) -> Candidate:
        best = max(totals)
        ties = [candidate for candidate, total in zip(candidates, totals, strict=True) if total == best]
        return ties[0] if len(ties) == 1 else self._rng.choice(ties)


class RoundRobin:
    """The next worker by id after the one that was picked last for the model, whatever the scores."""

    name = "round_robin"

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def pick(self, ask: Ask, candidates: Sequence[Candidate], totals: Sequence[float]) -> Candidate:
        last = self._last.get(ask.model, "")
        after = [candidate for candidate in candidates if candidate.worker_id > last]
        chosen = min(after or candidates, key=lambda candidate: candidate.worker_id)
        self._last[ask.model] = chosen.worker_id
        return chosen


class Softmax:
    """At random, the better the likelier: what scores ``temperature`` more is e times as likely.

    So routers that see the same loads do not all pick the same endpoint, and a slightly worse one gets its share.
    """

    name = "softmax"

    def __init__(self, rng: Random, temperature: float) -> None:
        self._rng = rng
        self.temperature = temperature

    def pick(self, ask: Ask, candidates: Sequence[Candidate], totals: Sequence[float]) -> Candidate:
        left = self._rng.random()
        for candidate, chance in zip(candidates, chances(totals, self.temperature), strict=True):
            left -= chance
            if left < 0:
                return candidate
        return candidates[-1]  # what rounding left over


def chances(totals: Sequence[float], temperature: float) -> list[float]:
    """How likely each is to be picked; they sum to 1. ``temperature`` is positive, there is at least one total."""
    best = max(totals)
    odds = [exp((total - best) / temperature) for total in totals]
    whole = sum(odds)
    return [each / whole for each in odds]
