"""Fewer requests waiting in the engine is better."""

from __future__ import annotations

from collections.abc import Sequence

from control_plane.router.scheduling.candidate import Ask, Candidate, oldest_fresh


class QueueDepth:
    """``1 / (1 + waiting)``. A stale sample counts as the deepest queue among the candidates, plus one."""

    name = "queue_depth"

    def score(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[float]:
        deepest, oldest = max([candidate.waiting for candidate in candidates], default=0), oldest_fresh(now)
        return [1.0 / (1 + (c.waiting if c.sampled_mono >= oldest else deepest + 1)) for c in candidates]
