"""Who would be left to serve when workers leave."""

from __future__ import annotations

from collections.abc import Collection

from control_plane.contracts.fleet import Snapshot, WorkerPhase, WorkerView


def takes_work(worker: WorkerView) -> bool:
    return worker.phase is WorkerPhase.READY and not worker.cordoned and not worker.draining


def others(snapshot: Snapshot, pool: str, leaving: Collection[str]) -> list[WorkerView]:
    """Workers of the pool that take requests, without those that leave."""
    return [w for w in snapshot.workers if w.pool == pool and w.id not in leaving and takes_work(w)]


def nobody_left(model: str) -> str:
    return f"nobody is left to serve {model}: new requests will wait, then get 503"


def unserved(snapshot: Snapshot, leaving: Collection[str]) -> tuple[str, ...]:
    """A warning for every model that these workers are the last to serve."""
    models = {pool.name: pool.model for pool in snapshot.pools}
    pools = dict.fromkeys(w.pool for w in snapshot.workers if w.id in leaving and takes_work(w))
    return tuple(nobody_left(models.get(pool, pool)) for pool in pools if not others(snapshot, pool, leaving))
