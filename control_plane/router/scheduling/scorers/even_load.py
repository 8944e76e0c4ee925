"""Nobody should have much more to do than the others, whatever speaks for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from control_plane.router.scheduling.candidate import UNKNOWN_CAPACITY_TOKENS, Ask, Candidate
from control_plane.router.scheduling.load import loads, zero_where_full

AT_MEAN: Final = 0.75
BEYOND_MEAN: Final = 0.5
"""So much more than the mean, as a share of it, scores 0."""

CALLS_BEYOND: Final = 6.0
"""But it takes at least so many calls like this one beyond the mean: among few calls the mean says little."""


class EvenLoad:
    """1 with nothing in flight, 0.75 at the mean of all candidates, and from there down to 0 at half as much again.

    The load is tokens in flight, and weighs less on an endpoint with more KV cache than the others. One whose KV cache
    is full has all that it can take, and scores 0. A stale sample is never read as idleness: see ``load.loads``.
    """

    name = "even_load"

    def score(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[float]:
        held = loads(candidates, now)
        scores = self._scores(ask, candidates, held) if max(held, default=0.0) >= 1.0 else [1.0] * len(held)
        return zero_where_full(scores, candidates, now)

    def _scores(self, ask: Ask, candidates: Sequence[Candidate], held: list[float]) -> list[float]:
        capacities = [candidate.capacity_tokens or UNKNOWN_CAPACITY_TOKENS for candidate in candidates]
        if capacities.count(capacities[0]) != len(capacities):
            usual = sum(capacities) / len(capacities)
            held = [tokens * usual / capacity for tokens, capacity in zip(held, capacities, strict=True)]
        mean = sum(held) / len(held)
        span = max(BEYOND_MEAN * mean, CALLS_BEYOND * ask.expected_tokens)
        below, beyond = (1.0 - AT_MEAN) / mean, AT_MEAN / span
        return [
            1.0 - tokens * below
            if tokens <= mean
            else (score if (score := AT_MEAN - (tokens - mean) * beyond) > 0.0 else 0.0)
            for tokens in held
        ]
