"""More of the prompt in the endpoint's prefix cache is better: what is there need not be computed."""

from __future__ import annotations

from collections.abc import Sequence

from control_plane.router.scheduling.candidate import Ask, Candidate, oldest_fresh


class PrefixCache:
    """The cached share of the prompt, as the prefix index believes it; 0 on an endpoint whose KV cache is full.

    That it is full is taken from a fresh sample only. Whether the load there is worth it is for other scorers to say.
    """

    name = "prefix_cache"

    def score(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[float]:
        cached, oldest = ask.cached, oldest_fresh(now)
        if not cached or not ask.prompt_tokens:
            return [0.0] * len(candidates)
        whole = ask.prompt_tokens
        return [0.0 if candidate.full(oldest) else cached[candidate.slot] / whole for candidate in candidates]
