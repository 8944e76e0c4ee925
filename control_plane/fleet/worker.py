"""One worker as the control plane knows it: its process, what it says of itself, and what was decided about it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from control_plane.contracts.fleet import Endpoint, Latency, WorkerPhase, WorkerView
from control_plane.contracts.worker import Load, WorkerInfo, WorkerState
from control_plane.contracts.worker_spec import Announcement, WorkerSpec
from control_plane.fleet.health import Health, Life, is_fresh
from control_plane.fleet.launcher.process import Process
from control_plane.fleet.state import Replica, Stage
from control_plane.fleet.worker_client import WorkerClient

_PHASES: Final = {
    WorkerState.FAILED: WorkerPhase.FAILED,
    WorkerState.ASLEEP: WorkerPhase.ASLEEP,
    WorkerState.WAKING: WorkerPhase.ASLEEP,
}
"""What a worker that serves says of itself, where that is not READY."""

_REFUSES: Final = (WorkerState.DRAINING, WorkerState.ASLEEP)


@dataclass(slots=True, eq=False)
class Worker:
    """Mutable, and changed by the controller and the worker's link only. ``*_at`` times are monotonic.

    ``draining`` is an operator's drain, ``retiring`` the fleet's own; both mean that the worker itself is told to
    take no new calls. ``instance_id`` is the last one that was known, so that routers can tell which is gone.
    """

    id: str
    pool: str
    model: str
    spec: WorkerSpec
    log_path: str
    stage: Stage = Stage.WAITING
    since_at: float = field(default_factory=time.monotonic)
    since_unix: float = field(default_factory=time.time)
    reason: str = ""
    process: Process | None = None
    starting: bool = False
    ended: str | None = None
    refuses_settings: bool = False
    announcement: Announcement | None = None
    moved_at: float = 0.0
    instance_id: str = ""
    client: WorkerClient | None = None
    info: WorkerInfo | None = None
    load: Load | None = None
    load_at: float = 0.0
    heartbeat_unix: float = 0.0
    health: Health = field(default_factory=lambda: Health(time.monotonic()))
    cordoned: bool = False
    draining: bool = False
    retiring: bool = False
    outdated: bool = False
    killed: bool = False
    failures: int = 0
    restarts: int = 0
    restart_at: float = 0.0

    def enter(self, stage: Stage, reason: str) -> None:
        self.stage, self.reason = stage, reason
        self.since_at, self.since_unix = time.monotonic(), time.time()

    def begin(self) -> None:
        """A new process is to be made: nothing of the last one is true any more, but its instance id."""
        self.process = self.announcement = self.client = self.info = self.load = self.ended = None
        self.heartbeat_unix = self.load_at = 0.0
        self.killed = self.refuses_settings = False
        self.health = Health(time.monotonic())
        self.enter(Stage.STARTING, "starting")

    def end(self, how: str) -> None:
        """The process is gone, or never came to be. What to do about it is decided next."""
        self.ended = how
        if self.stage is not Stage.STOPPING:
            self.reason = how

    def unheard(self, seconds: float, now: float) -> None:
        """Nobody listened to it for the last so many seconds: what it had to do in time may take as much longer."""
        self.health = self.health.unheard(seconds, now)
        self.since_at = min(now, self.since_at + seconds)
        self.moved_at = min(now, self.moved_at + seconds)

    @property
    def told_to_drain(self) -> bool:
        return self.draining or self.retiring

    @property
    def refuses(self) -> bool:
        """Whether it takes no calls by its own word."""
        return self.load is not None and self.load.state in _REFUSES

    @property
    def has_process(self) -> bool:
        return self.process is not None and not self.process.ended

    @property
    def phase(self) -> WorkerPhase:
        if self.stage is Stage.STOPPING:
            return WorkerPhase.STOPPING
        if self.stage is Stage.WAITING or self.ended is not None:
            return WorkerPhase.FAILED if self.failures or self.ended is not None else WorkerPhase.STARTING
        if self.stage is Stage.STARTING:
            return WorkerPhase.STARTING
        if self.health.life is Life.LOST:
            return WorkerPhase.LOST
        if self.load is None:
            return WorkerPhase.STARTING  # adopted, and not heard yet
        return _PHASES.get(self.load.state, WorkerPhase.READY)

    def running(self, now: float) -> int | None:
        """Requests inside the worker by its own count; None when that is not known any more."""
        if self.load is None or not is_fresh(self.load_at, now):
            return None
        return self.load.running + self.load.waiting

    def in_flight(self, routed: int, now: float) -> int:
        """The most that anyone counts: the routers, or the worker itself."""
        return max(routed, self.running(now) or 0)

    def idle(self, routed: int, now: float) -> bool:
        """Known to have nothing to do. What is not known is not idle."""
        alive = self.stage is Stage.SERVING and self.health.life is Life.ALIVE
        return alive and routed == 0 and self.running(now) == 0

    def replica(self, routed: int, now: float) -> Replica:
        return Replica(
            id=self.id,
            pool=self.pool,
            stage=self.stage,
            since=self.since_at,
            ended=self.ended,
            life=self.health.life if self.stage is Stage.SERVING else Life.UNKNOWN,
            signed_at=self.health.signed_at,
            stalled=self.stage is Stage.SERVING and self.health.stalled,
            moved_at=self.moved_at,
            in_flight=self.in_flight(routed, now),
            idle=self.idle(routed, now),
            cordoned=self.cordoned,
            retiring=self.retiring,
            drained=self.refuses,
            outdated=self.outdated,
            killed=self.killed,
            failures=self.failures,
            restart_at=self.restart_at,
            gpus=tuple(self.spec.gpus),
        )

    def view(self, routed: int, latency: Latency | None, now: float) -> WorkerView:
        waiting = self.stage is Stage.WAITING
        return WorkerView(
            id=self.id,
            pool=self.pool,
            phase=self.phase,
            reason=self.reason,
            cordoned=self.cordoned or self.retiring,
            draining=self.told_to_drain or (self.load is not None and self.load.state is WorkerState.DRAINING),
            address=self.announcement.address if self.announcement is not None else "",
            pid=self.process.pid if self.process is not None and self.has_process else 0,
            engine_pid=self.info.engine_pid if self.info is not None else 0,
            restarts=self.restarts,
            restart_unix=time.time() + max(0.0, self.restart_at - now) if waiting else 0.0,
            phase_since_unix=self.since_unix,
            heartbeat_unix=self.heartbeat_unix,
            info=self.info,
            load=self.load,
            in_flight=self.in_flight(routed, now),
            latency=latency,
            log_path=self.log_path,
            refuses_settings=self.refuses_settings,
        )

    def endpoint(self, now: float) -> Endpoint:
        return Endpoint(
            worker_id=self.id,
            instance_id=self.instance_id,
            address=self.announcement.address if self.announcement is not None else "",
            pool=self.pool,
            model=self.model,
            phase=self.phase,
            cordoned=self.cordoned or self.retiring,
            info=self.info,
            load=self.load,
            load_age_s=max(0.0, now - self.load_at) if self.load is not None else 0.0,
            secure=bool(self.spec.credentials),
        )
