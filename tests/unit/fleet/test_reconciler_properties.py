"""What holds whatever happens: a small world of processes, driven at random, reconciled all the time."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from control_plane.fleet.actions import Adopt, Blocked, Fail, Forget, Keep, Kill, Reap, Retire, Start, Stop
from control_plane.fleet.health import Life
from control_plane.fleet.reconciler import plan
from control_plane.fleet.state import (
    BACKOFF_FIRST_S,
    BACKOFF_LONGEST_S,
    LOST_STOP_S,
    START_SILENCE_S,
    SURGE,
    Fleet,
    PoolTarget,
    Record,
    Replica,
    Stage,
)

DEVICES = (0, 1, 2, 3)


class World(RuleBasedStateMachine):
    """Workers as dumb processes: they load, serve, get work, crash, fall silent, and end when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.wanted = 2
        self.gpus_each = 0
        self.workers: dict[str, Replica] = {}
        self.records: dict[str, Record] = {}
        self.work: dict[str, int] = {}
        self.failed_at: dict[str, float] = {}

    @initialize(wanted=st.integers(0, 4), gpus_each=st.integers(0, 2))
    def begin(self, wanted: int, gpus_each: int) -> None:
        self.wanted, self.gpus_each = wanted, gpus_each

    def set(self, worker_id: str, **fields: object) -> None:
        self.workers[worker_id] = dataclasses.replace(self.workers[worker_id], **fields)  # type: ignore[arg-type]

    def live(self) -> list[Replica]:
        return [worker for worker in self.workers.values() if worker.stage.has_process and worker.ended is None]

    def free_devices(self) -> tuple[int, ...]:
        """Those that one more worker would have."""
        used = {gpu for worker in self.workers.values() if worker.stage.has_process for gpu in worker.gpus}
        return tuple(gpu for gpu in DEVICES if gpu not in used)[: self.gpus_each]

    def observed(self) -> Fleet:
        target = PoolTarget("p", self.wanted, self.gpus_each, DEVICES if self.gpus_each else ())
        seen = tuple(
            replace(
                worker,
                in_flight=self.work.get(worker.id, 0),
                idle=worker.stage is Stage.SERVING and worker.life is Life.ALIVE and not self.work.get(worker.id),
            )
            for worker in self.workers.values()
        )
        return Fleet((target,), seen, tuple(self.records.values()))

    def reconcile(self) -> None:
        before = self.observed()
        seen = {worker.id: worker for worker in before.replicas}
        for action in plan(before, self.now):
            match action:
                case Start(worker_id, _, gpus):
                    assert len(self.live()) < self.wanted + SURGE
                    if worker_id in self.failed_at:
                        waited = self.now - self.failed_at.pop(worker_id)
                        assert waited >= BACKOFF_FIRST_S
                    kept = self.workers.get(worker_id)
                    assert kept is None or kept.stage is Stage.WAITING
                    self.workers[worker_id] = Replica(
                        worker_id,
                        "p",
                        Stage.STARTING,
                        self.now,
                        gpus=gpus,
                        failures=kept.failures if kept else 0,
                        signed_at=self.now,
                    )
                    self.work[worker_id] = 0
                case Adopt(worker_id, retire):
                    del self.records[worker_id]
                    self.workers[worker_id] = Replica(
                        worker_id,
                        "p",
                        Stage.SERVING,
                        self.now,
                        life=Life.ALIVE,
                        signed_at=self.now,
                        retiring=retire,
                        gpus=self.free_devices(),
                    )
                case Reap(worker_id):
                    self.records.pop(worker_id, None)
                case Fail(worker_id, failures, restart_at):
                    assert BACKOFF_FIRST_S <= restart_at - self.now <= BACKOFF_LONGEST_S
                    self.failed_at[worker_id] = self.now
                    self.set(
                        worker_id,
                        stage=Stage.WAITING,
                        ended=None,
                        failures=failures,
                        restart_at=restart_at,
                        since=self.now,
                        killed=False,
                        gpus=(),
                    )
                case Retire(worker_id, _):
                    victim = seen[worker_id]
                    if victim.in_flight and victim.ended is None:
                        spared = [w for w in seen.values() if not w.retiring and w.idle and w.ended is None]
                        taken = {a.worker_id for a in plan(before, self.now) if isinstance(a, Retire | Forget)}
                        assert all(worker.id in taken for worker in spared)
                    self.set(worker_id, retiring=True)
                case Keep(worker_id):
                    assert self.workers[worker_id].retiring
                    self.set(worker_id, retiring=False, drained=False)
                case Stop(worker_id, _):
                    worker = seen[worker_id]
                    overdue = worker.life is Life.LOST and self.now - worker.signed_at > LOST_STOP_S
                    silent = self.now - max(worker.since, worker.moved_at) > START_SILENCE_S
                    starting = worker.stage is Stage.STARTING and (worker.retiring or silent)
                    assert overdue or starting or (worker.drained and not worker.in_flight)
                    self.set(worker_id, stage=Stage.STOPPING, since=self.now)
                case Kill(worker_id):
                    self.set(worker_id, killed=True)
                    self.end(worker_id, "killed")
                case Forget(worker_id):
                    gone = self.workers.pop(worker_id)
                    assert gone.ended is not None or not gone.stage.has_process
                    self.failed_at.pop(worker_id, None)
                case Blocked():
                    assert self.gpus_each

    def end(self, worker_id: str, why: str) -> None:
        self.work[worker_id] = 0
        self.set(worker_id, ended=why)

    def pick(self, index: int, *stages: Stage) -> str | None:
        fitting = sorted(w.id for w in self.workers.values() if w.stage in stages and w.ended is None)
        return fitting[index % len(fitting)] if fitting else None

    @rule(seconds=st.sampled_from([0.1, 0.6, 2.0, 20.0, 70.0, 1000.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        for worker in self.live():
            if worker.life is Life.ALIVE:
                self.set(worker.id, signed_at=self.now)
        self.reconcile()

    @rule(wanted=st.integers(0, 5))
    def scale(self, wanted: int) -> None:
        self.wanted = wanted
        self.reconcile()

    @rule(index=st.integers(0, 9))
    def loads(self, index: int) -> None:
        if worker_id := self.pick(index, Stage.STARTING):
            self.set(worker_id, stage=Stage.SERVING, since=self.now, life=Life.ALIVE, signed_at=self.now)

    @rule(index=st.integers(0, 9))
    def shows_progress(self, index: int) -> None:
        if worker_id := self.pick(index, Stage.STARTING):
            self.set(worker_id, moved_at=self.now)

    @rule(index=st.integers(0, 9), amount=st.integers(0, 3))
    def gets_work(self, index: int, amount: int) -> None:
        worker_id = self.pick(index, Stage.SERVING)
        if worker_id and not self.workers[worker_id].retiring:
            self.work[worker_id] = amount

    @rule(index=st.integers(0, 9))
    def finishes(self, index: int) -> None:
        if worker_id := self.pick(index, Stage.SERVING):
            self.work[worker_id] = 0
            if self.workers[worker_id].retiring:
                self.set(worker_id, drained=True)
            self.reconcile()

    @rule(index=st.integers(0, 9))
    def crashes(self, index: int) -> None:
        if worker_id := self.pick(index, Stage.STARTING, Stage.SERVING):
            self.end(worker_id, "exit code 1")
            self.reconcile()

    @rule(index=st.integers(0, 9), lost=st.booleans())
    def falls_silent_or_comes_back(self, index: int, lost: bool) -> None:
        if worker_id := self.pick(index, Stage.SERVING):
            self.set(worker_id, life=Life.LOST if lost else Life.ALIVE)

    @rule(index=st.integers(0, 9))
    def ends_as_told(self, index: int) -> None:
        if worker_id := self.pick(index, Stage.STOPPING):
            self.end(worker_id, "exit code 0")
            self.reconcile()

    @rule(alive=st.booleans(), outdated=st.booleans())
    def finds_a_leftover(self, alive: bool, outdated: bool) -> None:
        if len(self.free_devices()) < self.gpus_each:
            return
        taken = set(self.workers) | set(self.records)
        number = next(n for n in range(1, 99) if f"p-{n}" not in taken)
        self.records[f"p-{number}"] = Record(f"p-{number}", "p", alive, outdated)
        self.reconcile()

    @invariant()
    def devices_are_used_once(self) -> None:
        used = [gpu for worker in self.live() for gpu in worker.gpus]
        assert len(used) == len(set(used))

    def teardown(self) -> None:
        """Left in peace, with every process doing what it is told, the fleet becomes what is wanted."""
        for _ in range(200):
            self.reconcile()
            for worker in list(self.workers.values()):
                if worker.ended is not None:
                    continue
                match worker.stage:
                    case Stage.STARTING:
                        self.set(worker.id, stage=Stage.SERVING, since=self.now, life=Life.ALIVE)
                    case Stage.STOPPING:
                        self.end(worker.id, "exit code 0")
                    case Stage.SERVING:
                        self.work[worker.id] = 0
                        self.set(worker.id, life=Life.ALIVE, signed_at=self.now, drained=worker.retiring)
            self.now += 1.0
        possible = min(self.wanted, len(DEVICES) // self.gpus_each) if self.gpus_each else self.wanted
        serving = [worker for worker in self.workers.values() if worker.stage is Stage.SERVING and not worker.retiring]
        assert len(serving) == possible
        assert all(worker.stage is Stage.SERVING for worker in self.live())
        assert not any(worker.retiring for worker in self.workers.values())
        assert plan(self.observed(), self.now) == () or possible < self.wanted


TestWorld = World.TestCase
TestWorld.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
