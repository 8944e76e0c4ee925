"""A session stays where it was: what it has cached there may be more than is known here."""

from __future__ import annotations

from collections.abc import Sequence

from control_plane.router.scheduling.candidate import Ask, Candidate


class SessionAffinity:
    """1 for the instance that served the call's session last, 0 for all others, and for all where there is none."""

    name = "session_affinity"

    def score(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[float]:
        home = ask.home
        if not home:
            return [0.0] * len(candidates)
        return [1.0 if candidate.instance_id == home else 0.0 for candidate in candidates]
