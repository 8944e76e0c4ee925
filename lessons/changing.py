"""Whether a platform is on its way to what was asked of it. Pure."""

from __future__ import annotations

from control_plane.contracts.fleet import Snapshot, WorkerPhase


def still_changing(snapshot: Snapshot) -> str:
    """In words, with what to do; "" where nothing changes."""
    news = [f"{worker.id} {_SAYS[worker.phase]}" for worker in snapshot.workers if worker.phase in _SAYS]
    there = {pool.name: sum(worker.pool == pool.name for worker in snapshot.workers) for pool in snapshot.pools}
    news += [
        f"{pool.desired - there[pool.name]} more of pool {pool.name} to come"
        for pool in snapshot.pools
        if pool.desired > there[pool.name]
    ]
    return f"Not yet: {', '.join(news)}. Look again when that is over." if news else ""


_SAYS = {WorkerPhase.STARTING: "is starting, and not ready yet", WorkerPhase.STOPPING: "is stopping"}
