"""Fewer tokens in flight is better: prompt and expected output of everything that the endpoint holds."""

from __future__ import annotations

from collections.abc import Sequence

from control_plane.router.scheduling.candidate import UNKNOWN_CAPACITY_TOKENS, Ask, Candidate
from control_plane.router.scheduling.load import loads


class InflightTokens:
    """``capacity / (capacity + tokens)``: 1 when nothing is in flight, 0.5 at one KV cache full, towards 0 beyond.

    A stale sample is never read as idleness: see ``load.loads``.
    """

    name = "inflight_tokens"

    def score(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[float]:
        unknown = UNKNOWN_CAPACITY_TOKENS
        return [
            (capacity := candidate.capacity_tokens or unknown) / (capacity + tokens)
            for candidate, tokens in zip(candidates, loads(candidates, now), strict=True)
        ]
