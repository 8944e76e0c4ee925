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
