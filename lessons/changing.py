"""Whether a platform is on its way to what was asked of it. Pure."""

from __future__ import annotations

from control_plane.contracts.fleet import Snapshot, WorkerPhase


def still_changing(snapshot: Snapshot) -> str:
    """In words, with what to do; "" where nothing changes."""
    news = [f"{worker.id} {_SAYS[worker.phase]}" for worker in snapshot.workers if worker.phase in _SAYS]
    there = {pool.name: sum(worker.pool == pool.name for worker in snapshot.workers) for pool in snapshot.pools}
    news += [
        f"{pool.desired} workers are wanted, {there[pool.name]} were there"
        for pool in snapshot.pools
        if pool.desired > there[pool.name]
    ]
    return f"{', '.join(news)}: look again in a moment." if news else ""


_SAYS = {WorkerPhase.STARTING: "was not ready yet", WorkerPhase.STOPPING: "was still stopping"}
