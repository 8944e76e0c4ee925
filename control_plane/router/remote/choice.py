"""Which of several routers gets a call. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

QUIET_BEATS = 3
"""A router that has missed so many beats in a row gets no new calls."""

LOST_BEATS = 10
"""And after so many it is given up: its process hangs, or its machine is gone."""


@dataclass(slots=True, eq=False)
class Standing:
    """One router as a gateway sees it. ``own`` are this gateway's calls there; ``total`` is what the router said last
    of all gateways' calls, of which this gateway's were ``own_then``. ``serving`` are the models of which it reaches
    workers. ``missed`` counts beats in a row."""

    id: str
    connected: bool = False
    joined: bool = False
    ready: bool = False
    draining: bool = False
    own: int = 0
    own_then: int = 0
    total: int = 0
    missed: int = 0
    serving: frozenset[str] = field(default_factory=frozenset)

    @property
    def usable(self) -> bool:
        """Whether it may get new calls."""
        return self.connected and self.joined and not self.draining and self.missed < QUIET_BEATS

    @property
    def load(self) -> int:
        """Calls that it has now, as far as can be told from here."""
        return self.own + max(0, self.total - self.own_then)


def pick(standings: Sequence[Standing], model: str, rng: Random) -> Standing | None:
    """The usable router with the least in flight, any of those that tie; one that reaches workers of the model goes
    before one that does not. None where none is usable."""
    usable = [standing for standing in standings if standing.usable]
    serving = [standing for standing in usable if model in standing.serving]
    among = serving or usable
    if not among:
        return None
    least = min(standing.load for standing in among)
    return rng.choice([standing for standing in among if standing.load == least])
