"""One decision as it is kept: enough to tell why, and to score it again. Pure.

Candidates change in place, so the numbers that were true then are copied, of the best ones and of some of those that
were left out. Everything that costs more waits until somebody asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final

from control_plane.contracts.decision import CANDIDATES_KEPT
from control_plane.router.scheduling.candidate import Ask, Candidate
from control_plane.router.scheduling.profile import Decision, Profile

_copied: Final = attrgetter(*(field.name for field in fields(Candidate)))

Values = tuple[Any, ...]
"""All fields of a candidate, in their order."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Whom a decision is for. ``number`` counts from 1 how often the request is sent somewhere; ``waited_s`` is how
    long it has looked for an endpoint, ``looks`` how often in vain before this; ``continued`` are the tokens of its
    answer that were out before."""

    request_id: str
    number: int = 1
    at_unix: float = 0.0
    waited_s: float = 0.0
    looks: int = 0
    continued: int = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """``rows`` are the candidates that could have been picked, best total first, each with its scores and total;
    ``left_out`` some of the others, each with the filter's name. The counts are of all."""

    number: int
    attempt: Attempt
    profile: Profile
    ask: Ask
    now: float
    chosen: str
    rows: Sequence[tuple[Values, tuple[float, ...], float]]
    candidates: int
    left_out: Sequence[tuple[str, Values]]
    rejected_by: dict[str, int]

    def again(self) -> list[Candidate]:
        """The candidates of ``rows`` as they were then."""
        return [Candidate(*values) for values, _, _ in self.rows]


def keep(number: int, attempt: Attempt, profile: Profile, ask: Ask, decision: Decision, now: float) -> Kept:
    """To be called before anything else changes the candidates."""
    weighted, chosen = decision.weighted, decision.chosen
    order: Sequence[int] = range(len(weighted))
    if len(weighted) > 1:
        order = sorted(order, key=weighted.__getitem__, reverse=True)
    if len(order) > CANDIDATES_KEPT:
        order = order[:CANDIDATES_KEPT]
        if not any(decision.kept[index] is chosen for index in order):
            order = [*order[:-1], next(i for i, candidate in enumerate(decision.kept) if candidate is chosen)]
    columns = decision.columns
    rows = [
        (_copied(decision.kept[index]), tuple([column[index] for column in columns]), weighted[index])
        for index in order
    ]
    left_out: list[tuple[str, Values]] = []
    for reason, candidates in decision.rejected:
        room = CANDIDATES_KEPT - len(left_out)
        left_out += [(reason, _copied(candidate)) for candidate in candidates[:room]]
    return Kept(
        number,
        attempt,
        profile,
        ask,
        now,
        chosen.worker_id if chosen is not None else "",
        rows,
        len(weighted),
        left_out,
        {reason: len(candidates) for reason, candidates in decision.rejected},
    )
