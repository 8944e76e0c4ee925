"""More of the prompt in the endpoint's prefix cache is better: what is there need not be computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from control_plane.router.scheduling.candidate import Ask, Candidate
from control_plane.router.scheduling.load import zero_where_full

WORTH: Final = 256
"""Cached tokens that are worth going for. Fewer are computed again in less time than a queue takes."""


class PrefixCache:
    """The cached share of the prompt, as the prefix index believes it; 0 on an endpoint whose KV cache is full.

    Below ``WORTH`` tokens it falls with their number, so that short prompts that begin alike do not crowd one endpoint.

    That it is full is taken from a fresh sample only. Whether the load there is worth it is for other scorers to say.
    """

    name = "prefix_cache"

    def score(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[float]:
        cached, whole = ask.cached, ask.prompt_tokens
        if not cached or not whole:
            return [0.0] * len(candidates)
        held = [cached[candidate.slot] for candidate in candidates]
        scores = [tokens / whole * (1.0 if tokens >= WORTH else tokens / WORTH) if tokens else 0.0 for tokens in held]
        return zero_where_full(scores, candidates, now)
