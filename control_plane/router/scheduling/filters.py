"""What must not be picked. The order is from the lasting to the passing."""

from __future__ import annotations

from collections.abc import Sequence

from control_plane.router.scheduling.candidate import Ask, Candidate, oldest_fresh
from control_plane.router.scheduling.interfaces import Filter

QUEUED_BATCHES = 1
"""One more batch's worth waiting in an engine keeps it from ever running dry. Beyond that a call is better off at the
router, where it can still go to whichever worker is free first, and be cancelled without a trace."""


def full(held: int, batch: int) -> bool:
    """Whether an endpoint that holds ``held`` sequences and runs ``batch`` of them at a time (0: it names no limit)
    should get no more."""
    return batch > 0 and held >= batch * (1 + QUEUED_BATCHES)


class Ready:
    """The worker has generated a token, and its heartbeats come."""

    name = "not_ready"

    def keep(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[Candidate]:
        return [candidate for candidate in candidates if candidate.ready]


class Fits:
    """Prompt and output fit the worker's context, and its whole KV cache."""

    name = "too_long"

    def keep(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[Candidate]:
        tokens = ask.max_total_tokens
        return [
            c
            for c in candidates
            if (not c.max_context or tokens <= c.max_context) and (not c.capacity_tokens or tokens <= c.capacity_tokens)
        ]


class NotTried:
    """The worker has not lost this very call before."""

    name = "tried"

    def keep(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[Candidate]:
        if not ask.tried:
            return list(candidates)
        return [candidate for candidate in candidates if candidate.instance_id not in ask.tried]


class NotCordoned:
    """No operator keeps new work away."""

    name = "cordoned"

    def keep(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[Candidate]:
        return [candidate for candidate in candidates if not candidate.cordoned]


class Connected:
    """There is a stream to it."""

    name = "unreachable"

    def keep(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[Candidate]:
        return [candidate for candidate in candidates if candidate.connected]


class Accepting:
    """It has not just failed or refused: a cool-down is over, and at most one call is on trial."""

    name = "cooling_down"

    def keep(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[Candidate]:
        return [candidate for candidate in candidates if candidate.refusing_until <= now]


class HasRoom:
    """It holds fewer sequences than it can batch and queue; what others hold there counts while it is known."""

    name = "full"

    def keep(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[Candidate]:
        oldest = oldest_fresh(now)
        return [
            c
            for c in candidates
            if c.sequences + c.others < c.max_sequences
            or not full(c.sequences + (c.others if c.sampled_mono >= oldest else 0), c.max_sequences)
        ]


USABLE: tuple[Filter, ...] = (Ready(), Fits(), NotTried(), NotCordoned(), Connected(), Accepting(), HasRoom())
