"""Less work given lately is better: where nothing is in flight, it is what spreads new prompts evenly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from control_plane.router.scheduling.candidate import Ask, Candidate

PROMPTS: Final = 4.0
"""So many prompts like this one more than the least given scores a half."""


class RecentWork:
    """From 1 for the endpoint that was given the fewest prompt tokens to compute, down towards 0.

    It is this router's own count: no sample can make it stale.
    """

    name = "recent_work"

    def score(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[float]:
        works = [candidate.work for candidate in candidates]
        least = min(works, default=0.0)
        half = PROMPTS * max(1, ask.prompt_tokens)
        return [half / (half + (work - least)) for work in works]
