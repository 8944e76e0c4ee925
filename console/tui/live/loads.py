"""What a worker last said of its load, and whether that can still be taken for its load now."""

from __future__ import annotations

import math

from control_plane.contracts.fleet import WorkerPhase, WorkerView
from control_plane.contracts.worker import Load

STALE_HEARTBEAT_S = 5.0


def load_now(worker: WorkerView, now_unix: float) -> Load | None:
    """The worker's load, None when it is silent, or not there to have one."""
    alive = worker.phase in (WorkerPhase.READY, WorkerPhase.STOPPING, WorkerPhase.ASLEEP)
    return worker.load if alive and now_unix - worker.heartbeat_unix <= STALE_HEARTBEAT_S else None


def kv_use(worker: WorkerView, now_unix: float) -> float | None:
    """The used fraction of the worker's KV cache, None when it is not known now."""
    load = load_now(worker, now_unix)
    return finite(load.kv_usage) if load is not None else None


def finite(value: float | None) -> float | None:
    """The number, unless it is infinite or not a number."""
    return value if value is not None and math.isfinite(value) else None
