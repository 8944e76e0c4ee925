"""What happens to a scheduler, by step: the same for whoever schedules."""

from __future__ import annotations

from dataclasses import dataclass

from workers.engine.sim.config import SchedulerConfig
from workers.engine.sim.request import SimRequest

STOP = 2
"""The token that ends an output early."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """``output``: the tokens that the model would give, as many as may be wanted; ``STOP`` may be the last."""

    step: int
    request: SimRequest
    output: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Before the step is scheduled, or while it is computed (``in_flight``)."""

    step: int
    request_id: str
    in_flight: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """``resets``: steps before which the prefix cache is to be forgotten, if no request has blocks then."""

    seed: int
    config: SchedulerConfig
    arrivals: tuple[Arrival, ...]
    cancels: tuple[Cancel, ...] = ()
    resets: tuple[int, ...] = ()

    @property
    def last_event(self) -> int:
        arrivals = [arrival.step for arrival in self.arrivals]
        return max([*arrivals, *(cancel.step for cancel in self.cancels), *self.resets], default=0)
