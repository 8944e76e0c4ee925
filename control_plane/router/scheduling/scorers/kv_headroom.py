"""More free KV cache is better."""

from __future__ import annotations

from collections.abc import Sequence

from control_plane.router.scheduling.candidate import Ask, Candidate, oldest_fresh


class KvHeadroom:
    """The free fraction of the KV cache as the worker last reported it; 0 where the sample is stale."""

    name = "kv_headroom"

    def score(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[float]:
        oldest = oldest_fresh(now)
        return [
            (1.0 - usage if (usage := c.kv_usage) <= 1.0 else 0.0) if c.sampled_mono >= oldest else 0.0
            for c in candidates
        ]
