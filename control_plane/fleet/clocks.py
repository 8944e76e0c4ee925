"""How far another process's wall clock is from ours, by asking for its time (Cristian 1989; as NTP takes the best of
several exchanges, RFC 5905 §10). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from control_plane.contracts.timeline import ClockSkew


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question: asked and answered on our clock, ``theirs`` on the other; all wall clock seconds."""

    asked_unix: float
    theirs_unix: float
    answered_unix: float

    @property
    def round_trip_s(self) -> float:
        return max(0.0, self.answered_unix - self.asked_unix)


def skew(process: str, exchanges: Iterable[Exchange]) -> ClockSkew:
    """By the quickest exchange; the truth is within ``uncertainty_s`` of it, whichever way the delay was uneven.

    Raises ValueError without an exchange.
    """
    best = min(exchanges, key=lambda exchange: exchange.round_trip_s)
    middle = (best.asked_unix + best.answered_unix) / 2
    return ClockSkew(process, best.theirs_unix - middle, best.round_trip_s / 2)
