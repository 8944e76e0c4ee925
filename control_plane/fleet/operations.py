"""What operators may do to the fleet. With ``dry_run`` everything is checked and told, and nothing done."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

from control_plane.contracts.errors import Conflict, InferDeckError, NotFound, RequestTimeout
from control_plane.contracts.failure import Failure
from control_plane.contracts.fleet import ActionResult, DrainProgress, RequestView, WorkerPhase
from control_plane.contracts.sleep import SLEEP_LEVELS
from control_plane.fleet.actions import Forget, Keep, Retire, Start
from control_plane.fleet.changes import Changes
from control_plane.fleet.controller import Controller
from control_plane.fleet.drainer import Drainer
from control_plane.fleet.events import Events
from control_plane.fleet.named import engine_of, named
from control_plane.fleet.pools import Pools
from control_plane.fleet.requests import Requests
from control_plane.fleet.routers import Routers
from control_plane.fleet.state import Stage
from control_plane.fleet.worker import Worker


class Operations:
    def __init__(
        self,
        controller: Controller,
        pools: Pools,
        events: Events,
        requests: Requests,
        routers: Routers,
        changes: Changes,
    ) -> None:
        self._controller = controller
        self._pools = pools
        self._events = events
        self._requests = requests
        self._routers = routers
        self._changes = changes

    async def cordon(self, worker_id: str, *, dry_run: bool = False) -> ActionResult:
        """Give the worker no new requests."""
        worker = self._worker(worker_id)
        in_flight = self._in_flight(worker)
        if worker.cordoned:
            return ActionResult(False, f"worker/{worker.id} is cordoned already", (), in_flight)
        if dry_run:
            return ActionResult(True, f"would cordon worker/{worker.id}", (worker.id,), in_flight)
        await self._cordon(worker)
        return ActionResult(True, f"worker/{worker.id} cordoned", (worker.id,), in_flight)

    async def uncordon(self, worker_id: str, *, dry_run: bool = False) -> ActionResult:
        """Let the worker have requests again, whether it was cordoned or drained."""
        worker = self._worker(worker_id)
        in_flight = self._in_flight(worker)
        if worker.retiring:
            pool = worker.pool
            wanted = self._pools.replicas(pool) + 1 if pool in self._pools.settings else 1
            raise Conflict(
                f"worker/{worker.id} is on its way out: {worker.reason}",
                param="worker_id",
                hint=f"inferdeck scale {pool}={wanted}",
            )
        if not worker.cordoned:
            return ActionResult(False, f"worker/{worker.id} is not cordoned", (), in_flight)
        if dry_run:
            return ActionResult(True, f"would uncordon worker/{worker.id}", (worker.id,), in_flight)
        await self._pools.uncordon(worker.id)
        self._controller.set_cordon(worker, False)
        if worker.client is not None and worker.stage is Stage.SERVING and not worker.retiring:
            with contextlib.suppress(InferDeckError):
                await worker.client.resume()
        self._events.record("worker_uncordoned", f"worker/{worker.id}", "uncordoned: takes requests again")
        return ActionResult(True, f"worker/{worker.id} uncordoned", (worker.id,), in_flight)

    async def drain(self, worker_id: str, timeout_s: float, *, dry_run: bool = False) -> AsyncIterator[DrainProgress]:
        """Cordon, tell the worker to refuse new calls, and follow its work to the end."""
        worker = self._worker(worker_id)
        drainer = Drainer(worker, self._requests, self._changes)
        if dry_run:
            plan = drainer.now()
            what = f"would cordon worker/{worker.id} and wait for {plan.in_flight} in flight"
            yield replace(plan, done=True, message=what)
            return
        if not worker.cordoned:
            await self._cordon(worker)
        if not worker.draining:
            worker.draining = True
            self._events.record("worker_draining", f"worker/{worker.id}", "draining")
        if worker.client is not None and worker.stage is Stage.SERVING:
            with contextlib.suppress(InferDeckError):
                await worker.client.drain()
        async with contextlib.aclosing(drainer.progress(timeout_s)) as steps:
            async for progress in steps:
                if progress.done:
                    self._events.record("worker_drained", f"worker/{worker.id}", progress.message)
                yield progress

    async def scale(self, pool: str, replicas: int, *, dry_run: bool = False) -> ActionResult:
        """Set what a pool should have; workers are started or drained and stopped after that."""
        self._pools.check(pool, replicas)
        before = self._pools.replicas(pool)
        planned = self._controller.foresee(pool, replicas)
        affected = tuple(action.worker_id for action in planned if isinstance(action, Retire | Start | Keep | Forget))
        leaving = [action.worker_id for action in planned if isinstance(action, Retire)]
        touched = sum(self._in_flight(self._controller.workers[worker_id]) for worker_id in leaving)
        if before == replicas:
            return ActionResult(False, f"pool/{pool} has {replicas} replicas already", (), 0)
        if dry_run:
            return ActionResult(True, f"would scale pool/{pool} from {before} to {replicas}", affected, touched)
        await self._pools.scale(pool, replicas)
        self._events.record("scaled", f"pool/{pool}", f"scaled from {before} to {replicas} by an operator")
        self._controller.wake()
        return ActionResult(True, f"pool/{pool} scaled from {before} to {replicas}", affected, touched)

    async def cancel(self, request_id: str, *, dry_run: bool = False) -> ActionResult:
        """End a request wherever it is. One that has ended already is no error, one that never was is. Raises
        RequestTimeout where it may run on, since what has it does not answer."""
        view = self._requests.find(request_id)
        if view is not None and not view.phase.active:
            return ActionResult(False, f"request/{request_id} has ended already")
        if dry_run:
            if view is None:
                raise self._unknown_request(request_id)
            return ActionResult(True, f"would cancel request/{request_id}", (request_id,), 1)
        outcome, all_answered = await self._routers.cancel(request_id)
        cancelled = outcome.found and not outcome.already_ended
        aborted = (not outcome.found or not all_answered) and await self._abort(request_id)
        if not cancelled and (view := self._requests.find(request_id)) is not None and view.phase.active:
            # A gateway hears its worker's end of it, late as it may be; a router's calls go on at the next router.
            if view.router_id or not aborted:
                raise self._not_cancelled(view)
            cancelled = True
        if not (cancelled or aborted):
            if not outcome.already_ended and view is None:
                raise self._unknown_request(request_id)
            return ActionResult(False, f"request/{request_id} has ended already")
        self._events.record("request_cancelled", f"request/{request_id}", "cancelled by an operator")
        return ActionResult(True, f"request/{request_id} cancelled", (request_id,), 1)

    async def inject(self, worker_id: str, failure: Failure | None, *, heal: bool = False) -> tuple[Failure, ...]:
        """Make a simulated worker fail, end its failures, or only ask. Returns those that are on or to come."""
        engine = engine_of(self._controller, worker_id)
        failures = await engine.inject(failure, heal=heal)
        if failure is not None:
            when = f" in {failure.after_s:g} s" if failure.after_s else ""
            self._events.record("failure_injected", f"worker/{worker_id}", f"made to fail{when}: {failure.kind}")
        elif heal:
            self._events.record("failures_ended", f"worker/{worker_id}", "its failures on purpose are over")
        return failures

    async def sleep(self, worker_id: str, level: int, *, dry_run: bool = False) -> ActionResult:
        """Have the worker's engine give its device's memory back; it gets no requests until it is woken."""
        engine, worker = engine_of(self._controller, worker_id), self._worker(worker_id)
        changed, took_s = await engine.sleep(level, check=dry_run)
        if not changed:
            return ActionResult(False, f"worker/{worker_id} is asleep already")
        if dry_run:
            in_flight = self._in_flight(worker)
            return ActionResult(
                True, f"would put worker/{worker_id} to sleep at level {level}", (worker_id,), in_flight
            )
        how = f"asleep at level {level}: {SLEEP_LEVELS[level]}"
        self._events.record("worker_asleep", f"worker/{worker_id}", f"{how}, in {took_s:.1f} s")
        return ActionResult(True, f"worker/{worker_id} {how}, in {took_s:.1f} s", (worker_id,))

    async def wake(self, worker_id: str, *, dry_run: bool = False) -> ActionResult:
        """Have a sleeping worker take requests again."""
        engine = engine_of(self._controller, worker_id)
        if dry_run:
            asleep = self._worker(worker_id).phase is WorkerPhase.ASLEEP
            words = f"would wake worker/{worker_id}" if asleep else f"worker/{worker_id} is awake already"
            return ActionResult(asleep, words, (worker_id,) if asleep else ())
        changed, took_s = await engine.wake()
        if not changed:
            return ActionResult(False, f"worker/{worker_id} is awake already")
        self._events.record("worker_awake", f"worker/{worker_id}", f"awake, in {took_s:.1f} s")
        return ActionResult(True, f"worker/{worker_id} awake, in {took_s:.1f} s", (worker_id,))

    async def _cordon(self, worker: Worker) -> None:
        await self._pools.cordon(worker.id)
        if self._controller.workers.get(worker.id) is not worker:
            # It left while the database was busy: its successor of that name is not who was meant.
            await self._pools.uncordon(worker.id)
            raise NotFound(f"worker/{worker.id} is gone", param="worker_id", hint="inferdeck get workers")
        self._controller.set_cordon(worker, True)
        self._events.record("worker_cordoned", f"worker/{worker.id}", "cordoned: no new requests")

    async def _abort(self, request_id: str) -> bool:
        """Ask the workers themselves: no router knows the request, or none is there to be asked."""

        async def ask(worker: Worker) -> bool:
            if worker.client is None:
                return False
            with contextlib.suppress(InferDeckError):
                return await worker.client.abort(request_id)
            return False

        return any(await asyncio.gather(*(ask(worker) for worker in self._controller.ordered())))

    def _worker(self, worker_id: str) -> Worker:
        return named(self._controller, worker_id)

    def _in_flight(self, worker: Worker) -> int:
        return self._controller.in_flight(worker)

    def _not_cancelled(self, view: RequestView) -> RequestTimeout:
        holder = f"router/{view.router_id}" if view.router_id else f"gateway/{view.gateway_id}"
        return RequestTimeout(
            f"request/{view.id} may run on: {holder}, which has it, did not answer", hint="inferdeck get requests"
        )

    def _unknown_request(self, request_id: str) -> NotFound:
        running = [view.id for view in self._requests.active()]
        there = f"{len(running)} run now" + (f", the newest is {running[-1]}" if running else "")
        return NotFound(
            f"there is no request {request_id!r}; {there}", param="request_id", hint="inferdeck get requests"
        )
