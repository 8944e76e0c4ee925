"""Whether a worker is alive, from its signs of life alone. Times are ``time.monotonic()`` seconds, passed in.

A sign is a heartbeat (a load sample) or progress (tokens that reached a router): a worker whose answers are slow but
whose tokens flow is busy, not dead. An interval without a sign is a miss; ``MISSES`` in a row make it lost, and
``RECOVERIES`` signs in a row, each in time, make it alive again, so that one lucky answer does not flap it back.

A heartbeat that comes late and tells of steps since the last one shows that the worker was at work all the while: it is
busy, and its interval is ``BUSY_INTERVAL_S`` until ``RECOVERIES`` signs in a row have come in the usual time.

A heart can beat over an engine that hangs: one that has requests and makes no step for as long as its pool allows is
lost, too, whatever answers, until it steps again or has none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

INTERVAL_S: Final = 1.5
"""A worker beats at least once a second; half a second is for a busy machine."""

BUSY_INTERVAL_S: Final = 6.0
"""Of a worker that was found to work on while its answers were late."""

MISSES: Final = 3
RECOVERIES: Final = 2

FRESH_S: Final = 3.0
"""A load older than this says nothing: it is never read as idle."""


_SILENT: Final = "no sign of life"
_HANGS: Final = "its engine hangs: it has requests and has made no step"

LOST_REASONS: Final = (_SILENT, _HANGS)
"""How ``Health.why_lost`` begins."""


class Life(Enum):
    UNKNOWN = "unknown"
    ALIVE = "alive"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Health:
    """``signed_at`` is the last sign, or when the waiting for the first one began. ``recoveries``: signs in a row
    that came in time, counted while it is lost or busy. ``stuck_at``: since when its engine has had requests and made
    no step; ``stalled``: it is lost for that."""

    signed_at: float
    life: Life = Life.UNKNOWN
    recoveries: int = 0
    busy: bool = False
    stuck_at: float | None = None
    stalled: bool = False

    def sign(self, now: float, *, worked: bool = False, owing: bool = False) -> Health:
        """A heartbeat or progress came. ``worked``: it tells of steps since the heartbeat before it; ``owing``: its
        engine has requests."""
        stuck_at = None if worked or not owing else now if self.stuck_at is None else self.stuck_at
        if self.stalled and stuck_at is not None:
            return self
        return replace(self._signed(now, worked), stuck_at=stuck_at)

    def _signed(self, now: float, worked: bool) -> Health:
        late = now - self.signed_at
        recoveries = self.recoveries + 1 if late <= INTERVAL_S else 1
        busy = self.busy and recoveries < RECOVERIES
        if worked and self.life is not Life.UNKNOWN and late > INTERVAL_S:
            busy = True
        if self.life is not Life.LOST:
            return Health(now, Life.ALIVE, recoveries if busy else 0, busy)
        if worked and late <= MISSES * BUSY_INTERVAL_S:
            return Health(now, Life.ALIVE, 0, busy)  # it was at work: too little was allowed it
        if recoveries >= RECOVERIES:
            return Health(now, Life.ALIVE, 0, busy)
        return Health(now, Life.LOST, recoveries, busy)

    def unheard(self, seconds: float, now: float) -> Health:
        """Nobody listened for the last so many seconds: they count for nothing."""
        stuck_at = None if self.stuck_at is None else min(now, self.stuck_at + seconds)
        return replace(self, signed_at=min(now, self.signed_at + seconds), stuck_at=stuck_at)

    def misses(self, now: float) -> int:
        """Intervals in a row that have gone by without a sign."""
        return max(0, int((now - self.signed_at) / (BUSY_INTERVAL_S if self.busy else INTERVAL_S)))

    def stuck_s(self, now: float) -> float:
        """For how long its engine has had requests and made no step."""
        return 0.0 if self.stuck_at is None else now - self.stuck_at

    def why_lost(self, now: float) -> str:
        if self.stalled:
            return f"{_HANGS} for {self.stuck_s(now):.0f} s"
        return f"{_SILENT} for {now - self.signed_at:.1f} s"

    def check(self, now: float, stall_s: float = 0.0) -> Health:
        """The same health, or lost: too many signs were missed, or it is stuck for ``stall_s``; 0 is never."""
        if self.life is Life.LOST:
            return self
        if self.misses(now) >= MISSES:
            return replace(self, life=Life.LOST, recoveries=0)
        if 0 < stall_s <= self.stuck_s(now):
            return replace(self, life=Life.LOST, recoveries=0, stalled=True)
        return self


def is_fresh(sampled_at: float, now: float) -> bool:
    """Whether a load sampled then still says what is so now."""
    return now - sampled_at <= FRESH_S
