"""The three parts of a profile. Each is small, has a name that people see, and never waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from control_plane.router.scheduling.candidate import Ask, Candidate


class Filter(Protocol):
    """Leaves out what must not be picked. ``name`` is the reason that is shown for those left out."""

    name: str

    def keep(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[Candidate]: ...


class Scorer(Protocol):
    """Rates every candidate from 0 (worst) to 1 (best), in the order given.

    The scores follow from what is given and from nothing else: a decision that was kept is scored again that way.
    """

    name: str

    def score(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> list[float]: ...


class Picker(Protocol):
    """Takes one of the candidates by their weighted scores (0-1, same order); there is at least one."""

    name: str

    def pick(self, ask: Ask, candidates: Sequence[Candidate], totals: Sequence[float]) -> Candidate: ...
