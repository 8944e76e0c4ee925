"""Taking one candidate when all have their scores."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from control_plane.router.scheduling.candidate import Ask, Candidate


class MaxRandomTies:
    """The best score; among equals any, so that idle workers share the first calls."""

    name = "max"

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def pick(self, ask: Ask, candidates: Sequence[Candidate], totals: Sequence[float]) -> Candidate:
        best = max(totals)
        ties = [candidate for candidate, total in zip(candidates, totals, strict=True) if total == best]
        return ties[0] if len(ties) == 1 else self._rng.choice(ties)


class RoundRobin:
    """The next worker by id after the one that was picked last for the model, whatever the scores."""

    name = "round_robin"

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def pick(self, ask: Ask, candidates: Sequence[Candidate], totals: Sequence[float]) -> Candidate:
        last = self._last.get(ask.model, "")
        after = [candidate for candidate in candidates if candidate.worker_id > last]
        chosen = min(after or candidates, key=lambda candidate: candidate.worker_id)
        self._last[ask.model] = chosen.worker_id
        return chosen
