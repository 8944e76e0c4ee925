"""Why a request went where it went: each decision of a router, as plain values.

Field names equal those of ``v1/decision.proto``, which documents each of them; ``wire`` converts both ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from control_plane.contracts.hold import Hold
from control_plane.contracts.routing import RoutingProfile

DECISIONS_KEPT: Final = 512
"""Decisions that a router keeps."""

CANDIDATES_KEPT: Final = 64
"""Of each decision: the best of those that could have been picked, and as many of those that could not."""


@dataclass(frozen=True, slots=True)
class CandidateView:
    worker_id: str
    instance_id: str
    scores: tuple[float, ...] = ()
    total: float = 0.0
    chance: float = 0.0
    sample_age_s: float | None = None
    stale: bool = False
    inputs: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RejectedView:
    worker_id: str
    reason: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class DecisionView:
    number: int
    router_id: str
    request_id: str
    attempt: int
    at_unix: float
    model: str
    profile: str
    by: RoutingProfile
    scorers: tuple[str, ...] = ()
    candidates: tuple[CandidateView, ...] = ()
    more_candidates: int = 0
    rejected: tuple[RejectedView, ...] = ()
    rejected_by: Mapping[str, int] = field(default_factory=dict)
    chosen: str = ""
    waited_s: float = 0.0
    looks: int = 1
    prompt_tokens: int = 0
    expected_tokens: float = 0.0
    continued_tokens: int = 0

    @property
    def picked(self) -> CandidateView | None:
        """None where nobody was picked."""
        return next((each for each in self.candidates if each.worker_id == self.chosen), None) if self.chosen else None

    @property
    def weights(self) -> tuple[float, ...]:
        """In the order of the scorers."""
        return tuple(self.by.weights.get(name, 0.0) for name in self.scorers)


@dataclass(frozen=True, slots=True)
class DecisionQuestion:
    """``again``: score the last decisions under this profile instead of telling them."""

    number: int
    request_id: str = ""
    last: int = 0
    after: int = 0
    candidates: int = 0
    again: RoutingProfile | None = None


@dataclass(frozen=True, slots=True)
class MovedView:
    number: int
    request_id: str
    attempt: int
    at_unix: float
    model: str
    was: str
    would: str
    was_total: float
    would_total: float
    chance: float = 1.0


@dataclass(frozen=True, slots=True)
class WorkerShare:
    requests: float = 0.0
    requests_again: float = 0.0
    tokens: float = 0.0
    tokens_again: float = 0.0


@dataclass(frozen=True, slots=True)
class RescoredView:
    router_id: str
    decisions: int
    partial: int = 0
    elsewhere: float = 0.0
    moved: tuple[MovedView, ...] = ()
    workers: Mapping[str, WorkerShare] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DecisionAnswer:
    number: int
    decisions: tuple[DecisionView, ...] = ()
    rescored: RescoredView | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    request_id: str
    decisions: tuple[DecisionView, ...] = ()
    silent: tuple[str, ...] = ()
    holds: tuple[Hold, ...] = ()


@dataclass(frozen=True, slots=True)
class DecisionList:
    decisions: tuple[DecisionView, ...] = ()
    silent: tuple[str, ...] = ()
    taken_unix: float = 0.0


@dataclass(frozen=True, slots=True)
class DecisionReplay:
    profile: str
    by: RoutingProfile
    routers: tuple[RescoredView, ...] = ()
    silent: tuple[str, ...] = ()
    errors: Mapping[str, str] = field(default_factory=dict)
