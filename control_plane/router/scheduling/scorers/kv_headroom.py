"""More free KV cache is better."""

from __future__ import annotations

from collections.abc import Sequence

from control_plane.router.scheduling.candidate import Ask, Candidate


class KvHeadroom:
    """The free fraction of the KV cache as the worker last reported it; 0 where the sample is stale."""

    name = "kv_headroom"

    def score(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[float]:
        return [min(1.0, max(0.0, 1.0 - c.kv_usage)) if c.fresh(now) else 0.0 for c in candidates]
