"""The fleet as values: what is wanted, and what is there. Times are ``time.monotonic()`` seconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from control_plane.fleet.health import Life

SURGE: Final = 1
"""Processes that a pool may have beyond its desired number while an old one still ends."""

BACKOFF_FIRST_S: Final = 0.5
BACKOFF_LONGEST_S: Final = 30.0

STABLE_S: Final = 30.0
"""A worker that served this long has its failures forgiven."""

STOP_S: Final = 15.0
"""How long a worker that was told to stop may take before it is killed."""

LOST_STOP_S: Final = 60.0
"""How long a worker may show no sign of life before it is replaced."""

START_SILENCE_S: Final = 900.0
"""How long a worker that starts may announce nothing new before it is started again. Downloads and conversions announce
their progress; what may be silent for long is a large model that is read or compiled."""


class Stage(Enum):
    """Where one worker's process is in its life."""

    WAITING = "waiting"  # no process; one is due at restart_at
    STARTING = "starting"  # a process, not serving yet
    SERVING = "serving"
    STOPPING = "stopping"  # told to end

    @property
    def has_process(self) -> bool:
        return self is not Stage.WAITING


@dataclass(frozen=True, slots=True)
class PoolTarget:
    """What a pool should be. ``gpus`` are the devices it may use, ``gpus_each`` how many a worker takes; 0 is CPU."""

    name: str
    replicas: int
    gpus_each: int = 0
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Replica:
    """One worker as it is.

    ``ended`` says how its process ended, once it has. ``retiring``: on its way out by the fleet's own decision, it
    gets no new work. ``moved_at``: when it last announced something new while it started. ``drained``: the worker
    itself confirmed that it takes no new work. ``outdated``: it runs other settings than its pool has now. ``idle``
    needs a fresh load that shows nothing, and no router that holds a request on it; what is not known is not idle.
    ``in_flight`` is the most that anyone counts. ``stalled``: it answers, and its engine hangs.
    """

    id: str
    pool: str
    stage: Stage
    since: float
    ended: str | None = None
    life: Life = Life.UNKNOWN
    signed_at: float = 0.0
    stalled: bool = False
    moved_at: float = 0.0
    in_flight: int = 0
    idle: bool = False
    cordoned: bool = False
    retiring: bool = False
    drained: bool = False
    outdated: bool = False
    killed: bool = False
    failures: int = 0
    restart_at: float = 0.0
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """A worker's files that nobody here looks after: left by an earlier control plane.

    ``alive``: the process they name still runs. ``outdated``: it runs other settings than its pool has now, or its
    pool is gone.
    """

    worker_id: str
    pool: str
    alive: bool
    outdated: bool = False


@dataclass(frozen=True, slots=True)
class Fleet:
    """Everything that one decision is made from."""

    pools: tuple[PoolTarget, ...]
    replicas: tuple[Replica, ...] = ()
    records: tuple[Record, ...] = ()


def backoff_s(failures: int) -> float:
    """Seconds before the next start after so many failures in a row."""
    return min(BACKOFF_LONGEST_S, BACKOFF_FIRST_S * 2.0 ** min(max(failures - 1, 0), 16))
