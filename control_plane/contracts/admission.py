"""What happens to a call when workers are busy: how saturation is read, and what each class of service may expect.

A router knows a call's class, never whose call it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

AtBusy = Literal["dispatch", "queue", "throttle"]
"""In the band ``busy``: to a worker all the same; wait; or 429 at once, since others are served."""

AtReject = Literal["queue", "refuse"]
"""In the band ``reject``: wait while there is room; or 503 at once."""


class Band(StrEnum):
    """How full a model's endpoints are."""

    GOOD = "good"
    WATCH = "watch"
    BUSY = "busy"
    REJECT = "reject"

    @property
    def rank(self) -> int:
        """0 for good to 3 for reject."""
        return BANDS.index(self)


BANDS: Final = (Band.GOOD, Band.WATCH, Band.BUSY, Band.REJECT)


@dataclass(frozen=True, slots=True)
class Service:
    """A class of service. ``tier`` is its label in metrics and views.

    ``weight``: its share of the tokens among classes of the same priority. ``min_share``, 0 to 1: the part of all
    tokens that it gets while its calls wait, whatever has priority.
    """

    tier: str = ""
    weight: int = 1
    at_busy: AtBusy = "dispatch"
    at_reject: AtReject = "queue"
    min_share: float = 0.0


DEFAULT_SERVICE: Final = Service()
"""Of calls whose host knows no tiers."""


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """Where bands begin, and how many calls may wait.

    An endpoint's saturation is ``max(kv_usage / kv_limit, waiting / engine_queue)``, ``waiting`` being what its engine
    has not scheduled yet; ``engine_queue`` 0 is as many as it batches. A band begins where the model's mean saturation
    reaches ``watch``, ``busy`` or ``reject``, and ends ``hysteresis`` below that. ``queue_limit`` calls may wait in one
    router, ``queue_share`` of them of one tier.
    """

    watch: float = 0.75
    busy: float = 0.80
    reject: float = 0.90
    hysteresis: float = 0.02
    kv_limit: float = 1.0
    engine_queue: int = 0
    queue_limit: int = 1024
    queue_share: float = 0.5

    @property
    def tier_limit(self) -> int:
        """Calls of one tier that may wait; at least one where any may."""
        return min(self.queue_limit, max(1, int(self.queue_limit * self.queue_share)))
