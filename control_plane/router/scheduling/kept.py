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

COPIED: Final = tuple(field.name for field in fields(Candidate) if field.name != "since")
"""Fields that are kept of a candidate. Plain values all, so that what is kept costs the garbage collector nothing."""

_copied: Final = attrgetter(*COPIED)

_SAMPLED: Final = 4
"""One total in so many is looked at first."""

Values = tuple[Any, ...]
"""Those of ``COPIED``, in their order: the first arguments of a ``Candidate``."""


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
    """``rows`` are the candidates that could have been picked, best total first; ``columns`` has their scores, a row of
    numbers for each scorer, ``totals`` their weighted means. ``left_out`` are some of the others, each with the
    filter's name. The counts are of all."""

    number: int
    attempt: Attempt
    profile: Profile
    ask: Ask
    now: float
    chosen: str
    rows: Sequence[Values]
    columns: Sequence[Sequence[float]]
    totals: Sequence[float]
    candidates: int
    left_out: Sequence[tuple[str, Values]]
    rejected_by: dict[str, int]

    def again(self) -> list[Candidate]:
        """The candidates of ``rows`` as they were then."""
        return [Candidate(*values) for values in self.rows]


def keep(number: int, attempt: Attempt, profile: Profile, ask: Ask, decision: Decision, now: float) -> Kept:
    """To be called before anything else changes the candidates."""
    kept, weighted, columns, chosen = decision.kept, decision.weighted, decision.columns, decision.chosen
    order = best(weighted, CANDIDATES_KEPT)
    if len(kept) > CANDIDATES_KEPT and not any(kept[index] is chosen for index in order):
        order[-1] = next(index for index, candidate in enumerate(kept) if candidate is chosen)
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
        [_copied(kept[index]) for index in order],
        [[column[index] for index in order] for column in columns],
        [weighted[index] for index in order],
        len(weighted),
        left_out,
        {reason: len(candidates) for reason, candidates in decision.rejected},
    )


def best(totals: Sequence[float], most: int) -> list[int]:
    """Where the best so many are, the best first; equals in their order.

    Of many totals, a sample tells how good one has to be, and only those that are get sorted.
    """
    among: Sequence[int] = range(len(totals))
    if len(totals) > _SAMPLED * most:
        sample = sorted(totals[::_SAMPLED], reverse=True)
        bound = sample[min(len(sample) - 1, most // _SAMPLED + most // (2 * _SAMPLED) + 1)]
        found = [index for index, total in enumerate(totals) if total >= bound]
        among = found if len(found) >= most else among
    return sorted(among, key=totals.__getitem__, reverse=True)[:most]
