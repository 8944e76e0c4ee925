"""Workers by the names that operators type."""

from __future__ import annotations

from control_plane.contracts.errors import Conflict, NotFound
from control_plane.fleet.controller import Controller
from control_plane.fleet.state import Stage
from control_plane.fleet.worker import Worker
from control_plane.fleet.worker_client import WorkerClient


def named(controller: Controller, worker_id: str) -> Worker:
    """Raises NotFound, which names those that there are."""
    worker = controller.workers.get(worker_id)
    if worker is None:
        there = ", ".join(each.id for each in controller.ordered()) or "none"
        raise NotFound(
            f"there is no worker {worker_id!r}; there are: {there}", param="worker_id", hint="inferdeck get workers"
        )
    return worker


def engine_of(controller: Controller, worker_id: str) -> WorkerClient:
    """The way to the worker's engine. Raises NotFound, and Conflict for a worker that does not serve now."""
    worker = named(controller, worker_id)
    if worker.client is None or worker.stage is not Stage.SERVING or worker.ended is not None:
        why = f": {worker.reason}" if worker.reason else ""
        raise Conflict(
            f"worker/{worker.id} has no engine to look into, it is {worker.phase.name.lower()}{why}",
            param="worker_id",
            hint=f"inferdeck wait worker/{worker.id} --for ready",
        )
    return worker.client
