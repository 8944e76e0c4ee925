"""Speeds out of running totals: what happened per second over the last ten."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from control_plane.contracts.fleet import GatewayView, Snapshot

WINDOW_S = 10.0
_SHORTEST_S = 1.5
_LEFT = 499
"""The client went away, or an operator cancelled: nobody was refused."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Per second; ``cpu`` in cores. None until two totals lie far enough apart."""

    requests: float | None = None
    refused: float | None = None
    errors: float | None = None
    cpu: float | None = None


@dataclass(frozen=True, slots=True)
class Rates:
    gateways: Mapping[str, Rate] = field(default_factory=dict)

    @property
    def total(self) -> Rate:
        """All gateways together, unknown while one of them is."""
        every = self.gateways.values()
        return Rate(*(_sum([getattr(rate, name) for rate in every]) for name in Rate.__slots__))


@dataclass(frozen=True, slots=True)
class _Totals:
    at: float
    requests: int
    refused: int
    errors: int
    cpu: float

    @classmethod
    def of(cls, gateway: GatewayView) -> _Totals:
        refused = sum(count for status, count in gateway.responses.items() if 400 <= status < 500 and status != _LEFT)
        errors = sum(count for status, count in gateway.responses.items() if status >= 500)
        return cls(gateway.report_unix, gateway.requests_total, refused, errors, gateway.cpu_s)


class RateMeter:
    """Keeps each gateway's totals for the window; a gateway that started anew starts from nothing."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, float], deque[_Totals]] = {}

    def add(self, snapshot: Snapshot) -> Rates:
        kept: dict[tuple[str, float], deque[_Totals]] = {}
        rates: dict[str, Rate] = {}
        for gateway in snapshot.gateways:
            key = (gateway.id, gateway.started_unix)
            totals = kept[key] = self._kept.get(key, deque())
            newest = _Totals.of(gateway)
            if not totals or newest.at > totals[-1].at:
                totals.append(newest)
            while len(totals) > 2 and totals[1].at <= newest.at - WINDOW_S:
                totals.popleft()
            rates[gateway.id] = _rate(totals[0], totals[-1])
        self._kept = kept
        return Rates(rates)


def _rate(old: _Totals, new: _Totals) -> Rate:
    seconds = new.at - old.at
    if seconds < _SHORTEST_S or new.requests < old.requests:
        return Rate()
    return Rate(
        requests=(new.requests - old.requests) / seconds,
        refused=(new.refused - old.refused) / seconds,
        errors=(new.errors - old.errors) / seconds,
        cpu=(new.cpu - old.cpu) / seconds,
    )


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None
