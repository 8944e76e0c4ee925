"""Where one request's time went, across processes, as plain values.

Field names equal those of ``v1/operator.proto``, which documents each of them. Durations and starts are seconds, starts
count from the request's arrival at its gateway.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from control_plane.contracts.fleet import RequestView


@dataclass(frozen=True, slots=True)
class Span:
    name: str
    process: str
    start_s: float
    duration_s: float
    parent: str = ""
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def attempt(self) -> int:
        """Which of the request's attempts at a worker it belongs to, from 1; 0 where there was one only, or none."""
        told = self.attributes.get("attempt", "")
        return int(told) if told.isdecimal() else 0

    def of(self, stage: Span) -> bool:
        """Whether it is part of that stage: a request that went on elsewhere has several of a name."""
        return self.parent == stage.name and self.attempt == stage.attempt


@dataclass(frozen=True, slots=True)
class ClockSkew:
    process: str
    ahead_s: float
    uncertainty_s: float


@dataclass(frozen=True, slots=True)
class Timeline:
    request: RequestView
    spans: tuple[Span, ...] = ()
    clocks: tuple[ClockSkew, ...] = ()
    missing_steps: int = 0
