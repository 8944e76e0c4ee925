"""Whether a worker is alive, from its signs of life alone. Times are ``time.monotonic()`` seconds, passed in.

A sign is a heartbeat (a load sample) or progress (tokens that reached a router): a worker whose answers are slow but
whose tokens flow is busy, not dead. An interval without a sign is a miss; ``MISSES`` in a row make it lost, and
``RECOVERIES`` signs in a row, each in time, make it alive again, so that one lucky answer does not flap it back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

INTERVAL_S: Final = 1.5
"""A worker beats at least once a second; half a second is for a busy machine."""

MISSES: Final = 3
RECOVERIES: Final = 2

FRESH_S: Final = 3.0
"""A load older than this says nothing: it is never read as idle."""


class Life(Enum):
    UNKNOWN = "unknown"
    ALIVE = "alive"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Health:
    """``signed_at`` is the last sign, or when the waiting for the first one began."""

    signed_at: float
    life: Life = Life.UNKNOWN
    recoveries: int = 0

    def sign(self, now: float) -> Health:
        """A heartbeat or progress came."""
        if self.life is not Life.LOST:
            return Health(now, Life.ALIVE)
        in_time = now - self.signed_at <= INTERVAL_S
        recoveries = self.recoveries + 1 if in_time else 1
        if recoveries >= RECOVERIES:
            return Health(now, Life.ALIVE)
        return Health(now, Life.LOST, recoveries)

    def misses(self, now: float) -> int:
        """Intervals in a row that have gone by without a sign."""
        return max(0, int((now - self.signed_at) / INTERVAL_S))

    def check(self, now: float) -> Health:
        """The same health, or lost when too many signs were missed."""
        if self.life is not Life.LOST and self.misses(now) >= MISSES:
            return replace(self, life=Life.LOST, recoveries=0)
        return self


def is_fresh(sampled_at: float, now: float) -> bool:
    """Whether a load sampled then still says what is so now."""
    return now - sampled_at <= FRESH_S
