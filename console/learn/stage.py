"""The lessons' ``Stage`` on a real platform: what a lesson asks, through the doors that operators and callers use."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from console.client import OperatorClient
from console.home import Target
from console.launch import Progress
from console.learn.call_views import call_view_lines
from console.learn.calls import Caller, Made
from console.learn.keyring import Keyring
from console.learn.request_forms import request_forms
from console.learn.sandbox import RunningSandbox, SandboxGone
from console.learn.token_way import hops_by_call
from console.learn.views import view_lines
from control_plane.contracts.encoded import BothForms
from control_plane.contracts.errors import InferDeckError, NotFound
from control_plane.contracts.failure import Failure, FailureKind
from control_plane.contracts.fleet import Event, Snapshot, WorkerPhase
from control_plane.contracts.policy_document import document_of
from control_plane.contracts.sizing.plan import Plan
from control_plane.contracts.step import BlockSnapshot, EngineStep, TraceMode
from lessons.actions import (
    POOL,
    Action,
    Calls,
    Cancel,
    Cordon,
    Encode,
    EngineArguments,
    Heal,
    Inject,
    Scale,
    SetPolicy,
    Settle,
    Uncordon,
    Wait,
)
from lessons.key_actions import MakeKey, SetKey
from lessons.model import Sandbox, View
from lessons.observation import Observation
from lessons.plan_action import PlanOf

SETTLE_S = 20.0
"""How long counters may take to say what has happened already."""

CHANGE_S = 120.0
"""How long workers may take to come or go."""

TRIES = 2
"""Of putting a sandbox back: a worker may die on purpose meanwhile."""

_POLL_S = 0.1


class NotDone(InferDeckError):
    """The platform did not come to the state that the lesson waited for."""


class PlatformStage:
    """Starts platforms as sandboxes ask for them; closed, it leaves none. Use it in ``async with``."""

    def __init__(self, progress: Progress = lambda _: None) -> None:
        self._progress = progress
        self._running: RunningSandbox | None = None
        self._caller: Caller | None = None
        self._policy: dict[str, Any] = {}
        self._keys: Keyring | None = None
        self._turns = itertools.count(1)
        self._marked_event = 0
        self._marked_steps: dict[str, tuple[str, int]] = {}
        self._marked_requests: frozenset[str] = frozenset()
        self._plans: dict[str, Plan] = {}
        self._encoded: dict[str, BothForms] = {}
        self.starts = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await asyncio.shield(self.close())

    async def close(self) -> None:
        if self._caller is not None:
            await self._caller.close()
        if self._running is not None:
            await self._running.close()
        self._running = self._caller = None

    @property
    def home(self) -> str:
        """The sandbox's home, for commands from another terminal."""
        return str(self._on.home.path)

    @property
    def running(self) -> bool:
        """Whether there is a platform, or one is on its way down."""
        return self._running is not None

    def target(self) -> Target:
        """Where the sandbox's control plane listens. Raises SandboxGone or Unreachable."""
        return self._on.home.target()

    @property
    def _on(self) -> RunningSandbox:
        if self._running is None:
            raise SandboxGone("the lesson has no platform yet")
        return self._running

    @property
    def _calls(self) -> Caller:
        if self._caller is None:
            raise SandboxGone("the lesson has no platform yet")
        return self._caller

    @property
    def _ring(self) -> Keyring:
        if self._keys is None:
            raise SandboxGone("the lesson has no platform yet")
        return self._keys

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[OperatorClient]:
        async with OperatorClient(self._on.home.target()) as client:
            yield client

    async def start(self, sandbox: Sandbox, seed: int) -> str:
        if not await self._is_put_back(sandbox):
            await self.close()
            self._running, _ = await RunningSandbox.start(sandbox, self._progress)
            self.starts += 1
            self._keys = Keyring(self._on.key)
            async with self._client() as client:
                if sandbox.policy:
                    await client.access.set_policy(sandbox.policy)
                self._policy = document_of(await client.access.policy())
        snapshot = await self._snapshot()
        if self._caller is not None:
            await self._caller.close()
        model = snapshot.models[0].name
        self._caller = Caller(self._on.endpoint, self._ring, model, f"{seed}-{next(self._turns)}")
        return _label(snapshot)

    async def _is_put_back(self, sandbox: Sandbox) -> bool:
        """Whether there is one like this that could be made as new."""
        running = self._running
        if running is None or running.sandbox != sandbox or running.home.running() is None:
            return False
        names = {f"{POOL}-{number}" for number in range(1, sandbox.replicas + 1)}
        for _ in range(TRIES):
            await self._put_back(sandbox, names)
            if names == {worker.id for worker in (await self._snapshot()).workers}:
                return True
        return False

    async def _put_back(self, sandbox: Sandbox, names: set[str]) -> None:
        """Whatever was done to it, by the lesson or by its learner, is undone. ``names`` are its workers'."""
        await self._calls.leave()
        async with self._client() as client:
            snapshot = await client.get_snapshot()
            await asyncio.gather(*(_end(client, each.id) for each in snapshot.requests if each.phase.active))
            await client.access.set_policy(document=json.dumps(self._policy))
            await self._ring.put_back(client.access)
            for worker in snapshot.workers:
                with contextlib.suppress(InferDeckError):  # one that is gone has nothing to put back
                    await client.uncordon(worker.id)
                    if sandbox.engine == "sim":
                        await client.inject(worker.id, heal=True)
            there = {worker.id for worker in snapshot.workers}
            if there != names:
                # Lessons know their workers by name. A new one has the lowest free number; of those that have nothing
                # to do the fleet lets go of those that are cordoned.
                many = len(there | names)
                await client.scale(POOL, many)
                await self._until(lambda seen: _settled(seen, many), "the workers did not come", CHANGE_S)
                await self._at_rest()
                await asyncio.gather(*(client.cordon(name) for name in there - names))
            await client.scale(POOL, sandbox.replicas)
        # Not before: a gateway does not come up while its only worker is cordoned.
        if not self._on.as_wanted:
            await self._restart({})
        await self._until(lambda seen: _settled(seen, sandbox.replicas), "the sandbox is not as it was", CHANGE_S)
        await self._at_rest()

    async def act(self, action: Action) -> None:
        if isinstance(action, Calls):
            await self._call(action)
            self._calls.check()
        elif isinstance(action, Cancel):
            await self._cancel(action.calls)
        elif isinstance(action, Wait):
            await self._wait(action)
        elif isinstance(action, PlanOf):
            self._plans[action.name] = action.worked_out()
        elif isinstance(action, Encode):
            await self._at_rest()
            async with self._client() as client:
                self._encoded[action.calls] = await request_forms(client, self._calls.latest.get(action.calls))
        elif isinstance(action, EngineArguments):
            await self._restart(action.args)
        else:
            async with self._client() as client:
                await self._operate(client, action)

    async def _restart(self, engine_args: Mapping[str, Any]) -> None:
        await self._on.restart(engine_args, self._progress)
        # Events and steps are counted anew.
        self._marked_event = 0
        self._marked_steps = {}

    async def _operate(
        self,
        client: OperatorClient,
        action: SetPolicy | MakeKey | SetKey | Cordon | Uncordon | Scale | Inject | Heal | Settle,
    ) -> None:
        if isinstance(action, SetPolicy):
            await client.access.set_policy(action.set)
        elif isinstance(action, MakeKey):
            await self._ring.make(client.access, self._on.endpoint, action)
        elif isinstance(action, SetKey):
            await self._ring.change(client.access, self._on.endpoint, action)
        elif isinstance(action, Cordon):
            await client.cordon(action.worker)
        elif isinstance(action, Uncordon):
            await client.uncordon(action.worker)
        elif isinstance(action, Heal):
            await client.inject(action.worker, heal=True)
        elif isinstance(action, Inject):
            failure = Failure(FailureKind(action.kind), 0.0, action.for_s, action.factor)
            await client.inject(action.worker, failure)
        else:
            if isinstance(action, Scale):
                await client.scale(POOL, action.replicas)
            await self._until(_as_wanted, "the workers did not come", CHANGE_S)

    async def _wait(self, action: Wait) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(action.at_most_s or None):
                await self._calls.all_over()
        self._calls.check()

    async def _call(self, calls: Calls) -> None:
        self._calls.move(self._on.endpoint)
        if tiers := {shape.tier for shape in calls.calls} - {""}:
            async with self._client() as client:
                for tier in tiers:
                    await self._ring.give_tier(client.access, self._on.endpoint, tier)
        before = len(self._calls.running) + len(self._calls.ended)
        going = self._calls.start(calls)
        if not calls.background:
            await going
            return

        def there(seen: Snapshot) -> bool:
            self._calls.check()
            mine = [*self._calls.running, *self._calls.ended]
            active = {request.id for request in seen.requests if request.phase.active}
            begun = sum(
                made.over or bool(made.answer.token_times if calls.heard else made.request_id in active)
                for made in mine
            )
            return begun >= before + min(calls.count, calls.at_once)

        await self._until(there, "the calls did not reach the platform", SETTLE_S)

    async def _cancel(self, name: str) -> None:
        """Until none runs: some may be on their way in still."""

        def mine() -> list[Made]:
            return [made for made in self._calls.running if made.shape.name == name]

        async with self._client() as client, asyncio.timeout(SETTLE_S):
            while mine():
                await asyncio.gather(*(_end(client, made.request_id) for made in mine()))
                await asyncio.sleep(_POLL_S)

    async def mark(self) -> None:
        self._calls.forget_ended()
        self._plans, self._encoded = {}, {}
        async with self._client() as client:
            snapshot = await client.get_snapshot(finished_requests=True)
            self._marked_requests = frozenset(request.id for request in snapshot.requests)
            self._marked_event = max((event.seq for event in snapshot.events), default=0)
            self._marked_steps = {}
            for worker in snapshot.workers:
                if worker.phase is WorkerPhase.READY and worker.info is not None:
                    with contextlib.suppress(InferDeckError):
                        told = await client.set_trace(worker.id, TraceMode.UNSPECIFIED)
                        self._marked_steps[worker.id] = (worker.info.instance_id, told.step)

    async def observe(self) -> Observation:
        self._calls.check()
        await self._at_rest()
        async with self._client() as client:
            snapshot = await client.get_snapshot(finished_requests=True)
            policy = await client.access.policy()
            events = await _events_since(client, self._marked_event)
            steps: dict[str, tuple[EngineStep, ...]] = {}
            blocks: dict[str, BlockSnapshot] = {}
            lost = 0
            for worker in snapshot.workers:
                if worker.phase is not WorkerPhase.READY or worker.info is None:
                    continue
                instance, step = self._marked_steps.get(worker.id, ("", 0))
                begin = step + 1 if instance == worker.info.instance_id else 1
                with contextlib.suppress(InferDeckError):  # it may die in the middle of a lesson about that
                    steps[worker.id], missed = await _steps_since(client, worker.id, begin)
                    blocks[worker.id] = await client.blocks(worker.id)
                    lost += missed
            views = {request.id: request for request in snapshot.requests}
            hops = await hops_by_call(client, [made for made in self._calls.ended if made.request_id in views])
        calls = tuple(made.seen(views.get(made.request_id), hops.get(made.request_id)) for made in self._calls.ended)
        requests = tuple(request for request in snapshot.requests if request.id not in self._marked_requests)
        profile = policy.routing.profile or self._on.sandbox.profile
        told = Observation(snapshot, calls, steps, blocks, events, profile, lost, requests)
        return replace(told, plans=dict(self._plans), encoded=dict(self._encoded))

    async def show(self, view: View, of: str) -> tuple[str, ...]:
        async with self._client() as client:
            if view in ("workers", "requests", "blocks", "steps", "events"):
                return await view_lines(client, view, of)
            return await call_view_lines(client, view, of, self._on, self._calls)

    async def _at_rest(self) -> None:
        """Until what has ended is told as ended, and engines have let go of it; what still runs is left alone."""
        running = {made.request_id for made in self._calls.running}
        over = {made.request_id for made in self._calls.ended if made.told_of}

        async with self._client() as client:
            try:
                async with asyncio.timeout(SETTLE_S):
                    while True:
                        if await _quiet(client, running, over):
                            return
                        await asyncio.sleep(_POLL_S)
            except TimeoutError:
                return  # a worker that is stuck is what the lesson is about

    async def _snapshot(self) -> Snapshot:
        async with self._client() as client:
            return await client.get_snapshot(finished_requests=True)

    async def _until(self, fact: Callable[[Snapshot], bool], otherwise: str, within_s: float) -> None:
        """Raises NotDone."""
        try:
            async with (
                asyncio.timeout(within_s),
                self._client() as client,
                aclosing(client.watch(_POLL_S, finished_requests=True)) as snapshots,
            ):
                async for snapshot in snapshots:
                    if fact(snapshot):
                        return
        except TimeoutError:
            pass
        raise NotDone(f"{otherwise} (waited {within_s:.0f} s)")


async def _end(client: OperatorClient, request_id: str) -> None:
    """It may have ended by itself."""
    with contextlib.suppress(NotFound):
        await client.cancel(request_id)


async def _quiet(client: OperatorClient, running: set[str], over: set[str]) -> bool:
    snapshot = await client.get_snapshot(finished_requests=True)
    active = {request.id for request in snapshot.requests if request.phase.active}
    known = {request.id for request in snapshot.requests}
    # More calls than are kept as ended can't all be known.
    if active - running or not (over <= known or len(known) >= 400):
        return False
    if running:
        return True
    for worker in snapshot.workers:
        if worker.phase is WorkerPhase.READY:
            with contextlib.suppress(InferDeckError):
                if (await client.blocks(worker.id)).used_blocks:
                    return False
    return True


async def _steps_since(client: OperatorClient, worker_id: str, begin: int) -> tuple[tuple[EngineStep, ...], int]:
    """The steps from ``begin`` on, and how many of them were not kept."""
    found: list[EngineStep] = []
    lost = 0
    async with aclosing(client.watch_steps(worker_id, begin, live=False)) as frames:
        async for frame in frames:
            found += (step for step in frame.steps if step.step >= begin)
            lost = max(lost, frame.trace.first_kept - begin)
    return tuple(found), lost


async def _events_since(client: OperatorClient, seq: int) -> tuple[Event, ...]:
    async with aclosing(client.events(seq)) as events:
        return tuple([event async for event in events])


def _as_wanted(snapshot: Snapshot) -> bool:
    return _settled(snapshot, snapshot.pools[0].desired)


def _settled(snapshot: Snapshot, replicas: int) -> bool:
    ready = [worker for worker in snapshot.workers if worker.phase is WorkerPhase.READY]
    return len(ready) == len(snapshot.workers) == replicas and any(gateway.ready for gateway in snapshot.gateways)


def _label(snapshot: Snapshot) -> str:
    infos = [worker.info for worker in snapshot.workers if worker.info is not None]
    if not infos:
        return "nothing yet"
    info = infos[0]
    name = "vLLM" if info.engine == "vllm" else info.engine
    what = "simulated " if info.engine == "sim" else f"real {name} {info.engine_version} on "
    model = f" · {info.model.name}" if info.model is not None and info.engine != "sim" else ""
    return (
        f"{what}{info.device.removeprefix('sim:')}{model} · {len(infos)} {'worker' if len(infos) == 1 else 'workers'}"
    )
