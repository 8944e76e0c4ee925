"""Fewer tokens in flight is better: prompt and expected output of everything that the endpoint holds."""

from __future__ import annotations

from collections.abc import Sequence

from control_plane.router.scheduling.candidate import UNKNOWN_CAPACITY_TOKENS, Ask, Candidate, oldest_fresh


class InflightTokens:
    """``capacity / (capacity + tokens)``: 1 when nothing is in flight, 0.5 at one KV cache full, towards 0 beyond.

    Tokens are this router's own, plus the others' at a typical size each. Where the sample that tells of the others is
    stale, the endpoint is taken to hold as many of them as the busiest fresh one, and at least one more than was seen:
    silence is never read as idleness. Where all are silent, only this router's own count decides.
    """

    name = "inflight_tokens"

    def score(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[float]:
        oldest = oldest_fresh(now)
        fresh = [candidate.others for candidate in candidates if candidate.sampled_mono >= oldest]
        busiest = max(fresh, default=0)
        scores = []
        for candidate in candidates:
            tokens = candidate.tokens
            if candidate.sampled_mono >= oldest:
                if candidate.others:
                    tokens += candidate.others * candidate.typical_tokens
            elif fresh:
                tokens += (max(candidate.others, busiest) + 1) * candidate.typical_tokens
            capacity = candidate.capacity_tokens or UNKNOWN_CAPACITY_TOKENS
            scores.append(capacity / (capacity + tokens))
        return scores
