"""Workers that nobody here started: their files, and whether the processes that those name still run."""

from __future__ import annotations

import signal
from collections.abc import Mapping

from control_plane.fleet.launcher.base import Found, Launcher
from control_plane.fleet.launcher.local import same_work
from control_plane.fleet.launcher.process import Process, kill_session
from control_plane.fleet.pools import Pools
from control_plane.fleet.reconciler import replica_number
from control_plane.fleet.state import Record
from control_plane.fleet.worker import Worker


class Discovery:
    """One scan's findings, from ``scan`` to ``drop``; what was taken in between belongs to the taker."""

    def __init__(self, launcher: Launcher, pools: Pools) -> None:
        self._launcher = launcher
        self._pools = pools
        self._found: dict[str, tuple[Found, Process | None]] = {}

    def scan(self, workers: Mapping[str, Worker]) -> None:
        """Look for whatever is not looked after, ghosts of known workers included."""
        for found in self._launcher.found():
            worker = workers.get(found.worker_id)
            if worker is not None and (worker.starting or _is_own(worker, found)):
                continue
            process = self._launcher.attach(found)
            if process is not None or worker is None:
                self._found[found.worker_id] = (found, process)

    def records(self) -> tuple[Record, ...]:
        return tuple(
            Record(
                worker_id,
                found.spec.pool if found.spec is not None else replica_number(worker_id)[0],
                alive=process is not None and not process.ended,
                outdated=not self._pools.wants(found.spec, same_work),
            )
            for worker_id, (found, process) in self._found.items()
        )

    def take(self, worker_id: str) -> tuple[Found, Process]:
        """A live one, to be looked after from now on."""
        found, process = self._found.pop(worker_id)
        assert process is not None
        return found, process

    def reap(self, worker_id: str, *, forget: bool) -> str:
        """End it where it runs, and what it left; with ``forget``, remove its files. Returns what was done."""
        found, process = self._found[worker_id]
        if process is not None:
            process.send(signal.SIGKILL)
            kill_session(process.pid, process.ticks)
        said = found.announcement
        self._launcher.clean_up(worker_id, (said.pid, said.start_ticks) if said is not None else None, forget=forget)
        return "what a dead process left was removed" if process is None else "a second process of it was ended"

    def drop(self) -> None:
        for _, process in self._found.values():
            if process is not None:
                process.close()
        self._found.clear()


def _is_own(worker: Worker, found: Found) -> bool:
    said = found.announcement
    return worker.process is not None and (said is None or said.pid == worker.process.pid)
