"""How much each endpoint holds, as far as that is known: for every scorer that asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from control_plane.router.scheduling.candidate import Candidate, oldest_fresh

FULL: Final = 0.9
"""With this share of its KV cache in use, an endpoint makes a call wait for room, whatever speaks for it."""


def zero_where_full(scores: list[float], candidates: Sequence[Candidate], now: float) -> list[float]:
    """The scores, but 0 for endpoints whose KV cache is full by a fresh sample."""
    if max([candidate.kv_usage for candidate in candidates], default=0.0) < FULL:
        return scores
    oldest = oldest_fresh(now)
    return [
        0.0 if candidate.kv_usage >= FULL and candidate.sampled_mono >= oldest else score
        for candidate, score in zip(candidates, scores, strict=True)
    ]


def loads(candidates: Sequence[Candidate], now: float) -> list[float]:
    """Tokens in flight, in the order given: this router's own, plus the others' at a typical size each.

    Where the sample that tells of the others is stale, the endpoint is taken to hold as many of them as the busiest
    fresh one, and at least one more than was seen: silence is never read as idleness. Where all are silent, only this
    router's own count decides.
    """
    oldest = oldest_fresh(now)
    samples = [candidate.sampled_mono for candidate in candidates]
    if not samples or min(samples) >= oldest:
        return [candidate.tokens + candidate.others * candidate.typical_tokens for candidate in candidates]
    fresh = [c.others for c, sampled in zip(candidates, samples, strict=True) if sampled >= oldest]
    if not fresh:
        return [candidate.tokens for candidate in candidates]
    busiest = max(fresh)
    return [
        c.tokens + (c.others if sampled >= oldest else max(c.others, busiest) + 1) * c.typical_tokens
        for c, sampled in zip(candidates, samples, strict=True)
    ]
