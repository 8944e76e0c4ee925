"""Carries out what the reconciler decides, and tells it what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.fleet import WorkerPhase
from control_plane.contracts.worker_spec import WorkerSpec
from control_plane.fleet.actions import (
    Action,
    Adopt,
    Blocked,
    Fail,
    Forget,
    Keep,
    Kill,
    Reap,
    Retire,
    Start,
    Stop,
)
from control_plane.fleet.cause import cause_of
from control_plane.fleet.changes import Changes
from control_plane.fleet.discovery import Discovery
from control_plane.fleet.ending import ask_to_end, end, kill
from control_plane.fleet.events import Events
from control_plane.fleet.health import LOST_REASONS, Life
from control_plane.fleet.launcher.base import Launcher, LaunchFailed
from control_plane.fleet.launcher.process import Process, kill_session
from control_plane.fleet.link import Link
from control_plane.fleet.pools import Pools
from control_plane.fleet.reconciler import plan, replica_number
from control_plane.fleet.requests import Requests
from control_plane.fleet.state import START_SILENCE_S, Fleet, Replica, Stage
from control_plane.fleet.worker import Worker
from control_plane.fleet.worker_client import WorkerClient
from control_plane.tasks import Tasks

TICK_S: Final = 0.5
SCAN_S: Final = 5.0
GAP_S: Final = 2.0  # between two steps, which ``TICK_S`` bounds where the process runs
STOP_GRACE_S: Final = 5.0
BLOCKED_S: Final = 5.0

log = logging.getLogger(__name__)


class Controller:
    """Everything runs on one loop: decisions and their effects are one step, processes and calls are tasks."""

    def __init__(
        self,
        pools: Pools,
        launcher: Launcher,
        events: Events,
        requests: Requests,
        changes: Changes,
        cordoned: frozenset[str],
        credentials: str = "",
    ) -> None:
        self.workers: dict[str, Worker] = {}
        self._pools = pools
        self._launcher = launcher
        self._events = events
        self._requests = requests
        self._changes = changes
        self._cordoned = set(cordoned)
        self._credentials = credentials
        self._discovery = Discovery(launcher, pools)
        self._scanned_at = -SCAN_S
        self._stepped_at: float | None = None
        self._links: dict[str, asyncio.Task[None]] = {}
        self._tasks = Tasks()
        self._blocked: dict[str, tuple[str, float, bool]] = {}
        self._woken = asyncio.Event()
        self._halted = False

    # --- for the rooms above

    def ordered(self) -> list[Worker]:
        return sorted(self.workers.values(), key=lambda worker: replica_number(worker.id))

    def wake(self) -> None:
        """Decide again now."""
        self._woken.set()

    def progressed(self, worker_id: str) -> None:
        """Tokens of this worker reached a router: it is alive, however slow its answers are."""
        worker = self.workers.get(worker_id)
        if worker is not None and worker.stage is Stage.SERVING:
            worker.health = worker.health.sign(time.monotonic())

    async def run(self) -> None:
        """Reconcile until ``halt``. The first step adopts what is there before it starts anything."""
        while not self._halted:
            self._woken.clear()
            # Others run between any two steps, even when every step asks for the next one.
            await asyncio.sleep(0)
            try:
                self.step()
            except Exception:
                log.exception("a step failed")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._woken.wait()

    def step(self) -> None:
        now = time.monotonic()
        self._mind_the_gap(now)
        self._check_health(now)
        try:
            if now - self._scanned_at >= SCAN_S:
                self._discovery.scan(self.workers)
                self._scanned_at = now
            actions = plan(Fleet(self._pools.targets(), self._replicas(now), self._discovery.records()), now)
            for action in actions:
                self._carry_out(action, now)
        finally:
            self._discovery.drop()
        self._note_blocked([action for action in actions if isinstance(action, Blocked)], now)
        if any(not isinstance(action, Blocked) for action in actions):
            self._changes.bump(structural=True)
            self.wake()

    async def halt(self, grace_s: float, *, killed_s: float = 10.0) -> None:
        """Decide nothing more, and end every worker: after what runs, or after the grace."""
        self._halted = True
        self.wake()
        ending = [worker for worker in self.workers.values() if worker.stage.has_process and worker.ended is None]
        for worker in ending:
            worker.enter(Stage.STOPPING, "the system is shut down")
        self._changes.bump(structural=True)
        await asyncio.gather(*(end(worker, grace_s, killed_s) for worker in ending))
        await self._tasks.cancel()
        for worker in self.workers.values():
            self._clean_up(worker, forget=True)

    async def sweep(self) -> None:
        """After ``halt`` and the launcher's end: end whatever has been forked at the very last moment."""
        for found in self._launcher.found():
            process = self._launcher.attach(found)
            if process is not None:
                process.send(signal.SIGKILL)
                await process.wait()
            identity = (process.pid, process.ticks) if process is not None else None
            self._launcher.clean_up(found.worker_id, identity, forget=True)

    def foresee(self, pool: str, replicas: int) -> tuple[Action, ...]:
        """What scaling a pool would do first."""
        targets = tuple(
            dataclasses.replace(target, replicas=replicas) if target.name == pool else target
            for target in self._pools.targets()
        )
        now = time.monotonic()
        return plan(Fleet(targets, self._replicas(now)), now)

    def in_flight(self, worker: Worker) -> int:
        return worker.in_flight(self._requests.in_flight()[worker.id], time.monotonic())

    def set_cordon(self, worker: Worker, cordoned: bool) -> None:
        worker.cordoned = cordoned
        if cordoned:
            self._cordoned.add(worker.id)
        else:
            self._cordoned.discard(worker.id)
            worker.draining = False
        self._changes.bump(structural=True)
        self.wake()

    def _replicas(self, now: float) -> tuple[Replica, ...]:
        routed = self._requests.in_flight()
        return tuple(worker.replica(routed[worker.id], now) for worker in self.workers.values())

    def _mind_the_gap(self, now: float) -> None:
        """Where this process stood still, as a paused machine does, what workers said meanwhile is still to be read."""
        gap, self._stepped_at = now - (self._stepped_at or now), now
        if gap > GAP_S:
            log.warning("stood still for %.1f s", gap)
            for worker in self.workers.values():
                worker.unheard(gap, now)

    def _check_health(self, now: float) -> None:
        for worker in self.workers.values():
            if worker.stage is not Stage.SERVING:
                continue
            before = worker.health.life
            worker.health = health = worker.health.check(now, self._pools.stall_timeout_s(worker.pool))
            if health.life is Life.LOST and before is not Life.LOST:
                worker.reason = health.why_lost(now)
                self._events.record("worker_lost", f"worker/{worker.id}", worker.reason, "error")
                self._changes.bump(structural=True)
            elif health.life is Life.ALIVE and worker.reason.startswith(LOST_REASONS):
                worker.reason = ""
                self._events.record("worker_back", f"worker/{worker.id}", "it gives signs of life again")
                self._changes.bump(structural=True)

    # --- what is done about it

    def _carry_out(self, action: Action, now: float) -> None:
        match action:
            case Start(worker_id, pool, gpus):
                self._start(worker_id, pool, gpus)
            case Adopt(worker_id, retire):
                self._adopt(worker_id, retire)
            case Reap(worker_id):
                what = self._discovery.reap(worker_id, forget=worker_id not in self.workers)
                self._events.record("worker_reaped", f"worker/{worker_id}", what, "warning")
            case Fail(worker_id, failures, restart_at):
                self._fail(self.workers[worker_id], failures, restart_at, now)
            case Retire(worker_id, why):
                worker = self.workers[worker_id]
                worker.retiring = True
                worker.reason = why
                self._tell(worker, WorkerClient.drain)
                self._events.record("worker_retiring", f"worker/{worker_id}", f"{why}: no new requests, draining")
            case Keep(worker_id):
                worker = self.workers[worker_id]
                worker.retiring = False
                worker.reason = ""
                self._tell(worker, WorkerClient.resume)
                self._events.record("worker_kept", f"worker/{worker_id}", "wanted after all: takes requests again")
            case Stop(worker_id, why):
                worker = self.workers[worker_id]
                hung = worker.health.life is Life.LOST
                worker.enter(Stage.STOPPING, why)
                self._events.record("worker_stopping", f"worker/{worker_id}", why, "warning" if hung else "info")
                self._tasks.spawn(ask_to_end(worker, 0.0 if hung else STOP_GRACE_S), f"stop {worker_id}")
            case Kill(worker_id):
                worker = self.workers[worker_id]
                worker.killed = True
                self._events.record("worker_killed", f"worker/{worker_id}", "it did not stop by itself", "warning")
                kill(worker)
            case Forget(worker_id):
                self._forget(self.workers[worker_id])

    def _start(self, worker_id: str, pool: str, gpus: tuple[int, ...]) -> None:
        spec = self._pools.spec(pool, worker_id, gpus)
        worker = self.workers.get(worker_id)
        if worker is None:
            worker = Worker(worker_id, pool, spec.model, spec, spec.log_path, cordoned=worker_id in self._cordoned)
            self.workers[worker_id] = worker
        elif worker.failures:
            worker.restarts += 1
        worker.spec, worker.model = dataclasses.replace(spec, restarts=worker.restarts), spec.model
        worker.begin()
        worker.reason = self._launcher.waits_for(spec) or worker.reason
        worker.starting = True
        again = f" again, restart {worker.restarts}" if worker.restarts else ""
        self._events.record("worker_starting", f"worker/{worker_id}", f"starting{again}")
        self._tasks.spawn(self._launch(worker), f"launch {worker_id}")

    async def _launch(self, worker: Worker) -> None:
        try:
            async with asyncio.timeout(START_SILENCE_S):
                process = await self._launcher.start(worker.spec)
        except TimeoutError:
            worker.end(f"no process was made in {START_SILENCE_S / 60:.0f} minutes")
            return
        except LaunchFailed as error:
            worker.end(error.message)
            return
        except Exception as error:
            log.exception("a worker could not be started", extra={"worker": worker.id})
            worker.end(f"{type(error).__name__}: {error}")
            return
        finally:
            worker.starting = False
            self.wake()
        log.info("process made", extra={"worker": worker.id, "worker_pid": process.pid})
        self._look_after(worker, process)
        if worker.stage is Stage.STOPPING:
            process.send(signal.SIGKILL if worker.killed else signal.SIGTERM)

    def _adopt(self, worker_id: str, retire: bool) -> None:
        found, process = self._discovery.take(worker_id)
        spec = found.spec or WorkerSpec(worker_id, replica_number(worker_id)[0], "", "", "", "", "", "")
        log_path = spec.log_path or str(self._launcher.log_path(worker_id))
        worker = Worker(worker_id, spec.pool, spec.model, spec, log_path, cordoned=worker_id in self._cordoned)
        worker.restarts = spec.restarts
        worker.begin()
        said = found.announcement
        # One that serves may have work: it is not to be stopped like one that starts.
        serves = said is not None and said.phase == "serving"
        worker.enter(Stage.SERVING if serves else Stage.STARTING, "adopted from an earlier control plane")
        worker.retiring = worker.outdated = retire
        worker.announcement = said
        worker.instance_id = said.instance_id if said is not None else ""
        self.workers[worker_id] = worker
        why = ", to be retired: its settings are not wanted any more" if retire else ""
        self._events.record("worker_adopted", f"worker/{worker_id}", f"pid {process.pid} runs on{why}")
        self._look_after(worker, process)

    def _look_after(self, worker: Worker, process: Process) -> None:
        worker.process = process
        link = Link(
            worker, self._launcher, self._linked(worker), lambda why: self._refuse(worker, why), self._credentials
        )
        self._links[worker.id] = self._tasks.keep(link.run, f"link {worker.id}")
        self._tasks.spawn(self._until_end(worker, process), f"end of {worker.id}")

    def _linked(self, worker: Worker) -> Any:
        ready = False

        def changed(structural: bool) -> None:
            nonlocal ready
            if not ready and worker.phase is WorkerPhase.READY:
                ready = True
                loaded = (
                    f", loaded in {worker.info.load_s:.1f} s" if worker.info is not None and worker.info.load_s else ""
                )
                self._events.record("worker_ready", f"worker/{worker.id}", f"ready{loaded}")
            self._changes.bump(structural=structural)
            if structural or worker.retiring:
                self.wake()

        return changed

    def _refuse(self, worker: Worker, why: str) -> None:
        self._events.record("worker_refused", f"worker/{worker.id}", why, "error")
        worker.enter(Stage.STOPPING, why)
        self._tasks.spawn(ask_to_end(worker, 0.0), f"stop {worker.id}")

    async def _until_end(self, worker: Worker, process: Process) -> None:
        await process.wait()
        link = self._links.pop(worker.id, None)
        if link is not None:
            link.cancel()
        expected = worker.stage is Stage.STOPPING and worker.retiring
        how = process.exit
        try:
            if not expected:
                said = self._launcher.announcement(worker.id)
                worker.refuses_settings = said is not None and said.refuses_settings
                how = cause_of(how, said, Path(worker.log_path))
            kill_session(process.pid, process.ticks)
        finally:
            worker.end(how)
            self._changes.bump(structural=True)
            self.wake()

    def _fail(self, worker: Worker, failures: int, restart_at: float, now: float) -> None:
        cause = worker.ended or "ended"
        told = worker.stage is Stage.STOPPING
        self._events.record(
            "worker_failed",
            f"worker/{worker.id}",
            f"{f'{worker.reason}; ' if told else ''}{cause}; starts again in {restart_at - now:.1f} s",
            "error",
        )
        worker.enter(Stage.WAITING, f"{worker.reason}; {cause}" if told else cause)
        worker.ended = worker.process = worker.client = worker.load = None
        worker.failures, worker.restart_at = failures, restart_at
        asyncio.get_running_loop().call_later(max(0.0, restart_at - now), self.wake)

    def _forget(self, worker: Worker) -> None:
        del self.workers[worker.id]
        self._clean_up(worker, forget=True)
        self._requests.worker_forgotten(worker.id)
        if worker.id in self._cordoned:
            self._cordoned.discard(worker.id)
            self._tasks.spawn(self._pools.uncordon(worker.id), f"uncordon {worker.id}")
        self._events.record("worker_gone", f"worker/{worker.id}", "stopped" if worker.ended is not None else "removed")

    def _tell(self, worker: Worker, what: Callable[[WorkerClient], Awaitable[Any]]) -> None:
        """Say it now; the link says it again should it get lost."""

        async def say(client: WorkerClient) -> None:
            with contextlib.suppress(InferDeckError):
                await what(client)

        if worker.client is not None and worker.stage is Stage.SERVING:
            self._tasks.spawn(say(worker.client), f"tell {worker.id}")

    def _clean_up(self, worker: Worker, *, forget: bool) -> None:
        identity = (worker.process.pid, worker.process.ticks) if worker.process is not None else None
        self._launcher.clean_up(worker.id, identity, forget=forget)

    def _note_blocked(self, blocked: list[Blocked], now: float) -> None:
        """A pool that stays without what it should have is an event, once for each reason; one that waits for a moment
        is not."""
        for name in set(self._blocked) - {each.pool for each in blocked}:
            del self._blocked[name]
        for each in blocked:
            why, since, told = self._blocked.get(each.pool, (each.why, now, False))
            if why != each.why:
                why, since, told = each.why, now, False
            if not told and now - since >= BLOCKED_S:
                self._events.record("pool_blocked", f"pool/{each.pool}", each.why, "warning")
                told = True
            self._blocked[each.pool] = (why, since, told)
