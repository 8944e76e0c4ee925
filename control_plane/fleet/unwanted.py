"""What new settings would end of what an earlier control plane left, foretold without a store and without a process."""

from __future__ import annotations

from control_plane.contracts.worker_spec import Announcement, WorkerSpec, alive
from control_plane.fleet.launcher.local import same_work
from control_plane.fleet.pools import worker_spec
from control_plane.settings import Home, Settings


def unwanted(home: Home, settings: Settings) -> list[str]:
    """The live workers in a home that no pool of these settings would start the same. How many each pool has is not
    looked at: that may be an operator's word."""
    pools = {pool.name: pool for pool in settings.pools}
    found: list[str] = []
    for path in sorted(home.workers.glob("*.spec.json")):
        worker_id = path.name.removesuffix(".spec.json")
        try:
            spec = WorkerSpec.load(path)
            said = Announcement.load(home.announcement(worker_id))
        except (OSError, ValueError, TypeError):
            continue
        if not alive(said.pid, said.start_ticks):
            continue
        pool = pools.get(spec.pool)
        if pool is None or not same_work(
            worker_spec(pool, worker_id, tuple(spec.gpus), home, settings.security.mutual_tls, {}), spec
        ):
            found.append(worker_id)
    return found
