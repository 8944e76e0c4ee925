"""Whether a platform can serve, and if not, what it still waits for. Pure: a snapshot in, a judgement out.

A worker that an operator put to sleep or cordoned does not come by itself: it is not waited for, and serves nobody.
Without any other, a platform is as ready as its operators want it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from control_plane.contracts.fleet import GatewayView, Snapshot, WorkerPhase, WorkerView

_THERE = (WorkerPhase.READY, WorkerPhase.ASLEEP)

GIVE_UP_AFTER = 3
"""Starts of one worker that failed, before waiting on has no sense any more. Where it refuses its settings, one is."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that start-up waits for. ``subject`` is "worker/x" or "gateway/g1"."""

    subject: str
    done: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Readiness:
    """``hopeless`` names what will not come by itself, with its reason; "" while there is hope."""

    ready: bool
    steps: tuple[Step, ...]
    hopeless: str = ""
    culprit: str = ""


def readiness(snapshot: Snapshot) -> Readiness:
    kept_out = bool(snapshot.workers) and all(
        worker.phase is WorkerPhase.ASLEEP or (worker.phase is WorkerPhase.READY and worker.cordoned)
        for worker in snapshot.workers
    )
    steps = [_of_gateway(gateway, kept_out) for gateway in snapshot.gateways]
    steps += [Step(f"worker/{worker.id}", worker.phase in _THERE, _detail(worker)) for worker in snapshot.workers]
    asleep = Counter(worker.pool for worker in snapshot.workers if worker.phase is WorkerPhase.ASLEEP)
    served = bool(snapshot.pools) and all(pool.ready + asleep[pool.name] >= pool.desired for pool in snapshot.pools)
    # A gateway is ready when one worker is; a platform without any wanted worker has nothing to be ready with.
    wanted = any(pool.desired for pool in snapshot.pools) and not kept_out
    opened = any(gateway.ready or (not wanted and gateway.url) for gateway in snapshot.gateways)
    for worker in snapshot.workers:
        failures = worker.restarts + 1
        if worker.phase is WorkerPhase.FAILED and (worker.refuses_settings or failures >= GIVE_UP_AFTER):
            how = f"failed {failures} times" if failures > 1 else "cannot start"
            why = f"worker/{worker.id} {how}: {worker.reason or 'no reason known'}"
            return Readiness(False, tuple(steps), why, worker.id)
    return Readiness(served and opened, tuple(steps))


def _of_gateway(gateway: GatewayView, kept_out: bool) -> Step:
    subject = f"gateway/{gateway.id}"
    if gateway.ready:
        return Step(subject, True, gateway.url)
    if gateway.url and kept_out:
        return Step(subject, True, f"{gateway.url}, without a worker: all are cordoned or asleep")
    return Step(subject, False, "starting")


def _detail(worker: WorkerView) -> str:
    if worker.phase is WorkerPhase.READY:
        took = f" in {worker.info.load_s:.1f} s" if worker.info and worker.info.load_s else ""
        return f"ready{took}"
    return worker.reason or worker.phase.name.lower()
