"""What the reconciler may decide about one worker. The controller carries it out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Start:
    """Make a process for a worker, on these devices."""

    worker_id: str
    pool: str
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Adopt:
    """Look after a process that an earlier control plane made; retire it where its settings are not wanted now."""

    worker_id: str
    retire: bool = False


@dataclass(frozen=True, slots=True)
class Reap:
    """Remove what a process left behind that nobody looks after; end it where it still runs."""

    worker_id: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The process ended by itself: start it again at ``restart_at``."""

    worker_id: str
    failures: int
    restart_at: float


@dataclass(frozen=True, slots=True)
class Retire:
    """Give the worker no new work, and let it finish what it has."""

    worker_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Keep:
    """A retiring worker is wanted after all."""

    worker_id: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Ask the process to end."""

    worker_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Kill:
    """End the process and all that belongs to it, now."""

    worker_id: str


@dataclass(frozen=True, slots=True)
class Forget:
    """The worker is gone, and nothing is to take its place."""

    worker_id: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """A pool cannot have what it should, and why."""

    pool: str
    why: str


Action = Start | Adopt | Reap | Fail | Retire | Keep | Stop | Kill | Forget | Blocked
