"""An operator's drain: no new requests, and wait until the worker has none left."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Final

from control_plane.contracts.errors import Conflict
from control_plane.contracts.fleet import DrainProgress
from control_plane.fleet.changes import Changes
from control_plane.fleet.requests import Requests
from control_plane.fleet.state import Stage
from control_plane.fleet.worker import Worker

REPORT_S: Final = 1.0


class Drainer:
    """Watches one worker that was told to drain. Ending the iteration ends the watching, not the drain."""

    def __init__(self, worker: Worker, requests: Requests, changes: Changes) -> None:
        self._worker = worker
        self._requests = requests
        self._changes = changes

    async def progress(self, timeout_s: float) -> AsyncGenerator[DrainProgress]:
        """Now, and whenever the work that is left changes; the last one is done or timed out. 0: no end.

        Raises Conflict when the drain is called off.
        """
        deadline = time.monotonic() + timeout_s if timeout_s > 0 else float("inf")
        last: DrainProgress | None = None
        while True:
            revision = self._changes.revision
            now = self.now()
            if not self._worker.draining and not now.done:
                raise Conflict(f"the drain of worker/{self._worker.id} was called off: it was uncordoned")
            overdue = not now.done and time.monotonic() >= deadline
            if overdue:
                now = DrainProgress(now.worker_id, now.in_flight, now.request_ids, timed_out=True, message=now.message)
            if now != last:
                yield now
                last = now
            if now.done or now.timed_out:
                return
            await self._changes.after(revision, min(REPORT_S, max(0.0, deadline - time.monotonic())))

    def now(self) -> DrainProgress:
        worker, at = self._worker, time.monotonic()
        held = self._requests.on(worker.id)
        left = worker.in_flight(len(held), at)
        if worker.stage is Stage.WAITING or worker.ended is not None:
            return DrainProgress(worker.id, 0, done=True, message=f"worker/{worker.id} has ended, nothing runs on it")
        if worker.stage is Stage.STARTING or (worker.refuses and worker.idle(len(held), at)):
            return DrainProgress(worker.id, 0, done=True, message=f"worker/{worker.id} is drained")
        ids = tuple(view.id for view in held)
        if worker.running(at) is None:
            message = f"worker/{worker.id} does not answer; it had {left} in flight"
        else:
            message = f"worker/{worker.id} has {left} in flight"
        return DrainProgress(worker.id, left, ids, message=message)
