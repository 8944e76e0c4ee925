"""What the fleet asks of whatever makes processes for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.worker_spec import Announcement, WorkerSpec
from control_plane.fleet.launcher.process import Process


class LaunchFailed(InferDeckError):
    """A process could not be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Found:
    """A worker's files. ``spec`` and ``announcement`` are None where the file is missing or unreadable."""

    worker_id: str
    spec: WorkerSpec | None
    announcement: Announcement | None


class Launcher(Protocol):
    """Makes worker processes that outlive this one, and finds them again."""

    async def start(self, spec: WorkerSpec) -> Process:
        """A new process for this worker. Raises LaunchFailed."""
        ...

    def waits_for(self, spec: WorkerSpec) -> str:
        """What has to be done before a process for this worker can be made; empty where nothing has."""
        ...

    def found(self) -> tuple[Found, ...]:
        """Every worker that has files here."""
        ...

    def attach(self, found: Found) -> Process | None:
        """The process that the files speak of, None if it has ended."""
        ...

    def announcement(self, worker_id: str) -> Announcement | None:
        """What the worker says of itself now."""
        ...

    def clean_up(self, worker_id: str, process: tuple[int, int] | None, *, forget: bool) -> None:
        """End what a dead worker (pid, start ticks) left running; with ``forget``, remove its files too."""
        ...

    def log_path(self, worker_id: str) -> Path: ...

    async def close(self) -> None:
        """Let go of everything; the workers live on."""
        ...
