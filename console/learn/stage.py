"""The lessons' ``Stage`` on a real platform: what a lesson asks, through the doors that operators and callers use."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self

from console.at_once import at_once
from console.client import OperatorClient
from console.home import Target
from console.launch import Progress
from console.learn.call_views import call_view_lines
from console.learn.calls import Caller, Made
from console.learn.crash import crash_under
from console.learn.keyring import Keyring
from console.learn.mark import Mark
from console.learn.request_forms import request_forms
from console.learn.sandbox import RunningSandbox, SandboxGone
from console.learn.token_way import hops_by_call
from console.learn.views import view_lines
from console.learn.waiting import CHANGE_S, POLL_S, SETTLE_S, NotDone, as_wanted, at_rest, settled, until
from control_plane.contracts.errors import InferDeckError, NotFound
from control_plane.contracts.failure import Failure, FailureKind
from control_plane.contracts.fleet import Snapshot, WorkerPhase
from control_plane.contracts.policy_document import document_of
from control_plane.contracts.sizing.plan import Plan
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
from lessons.conversation import ItemSeen
from lessons.crash_action import Crash
from lessons.encoded import BothForms
from lessons.key_actions import MakeKey, SetKey
from lessons.model import Sandbox, View
from lessons.observation import CallSeen, Observation
from lessons.plan_action import PlanOf

TRIES = 2
"""Of putting a sandbox back: a worker may die on purpose meanwhile."""


class PlatformStage:
    """Starts platforms as sandboxes ask for them; closed, it leaves none. Use it in ``async with``.

    ``began``: the platform as the lesson found it, None before there was one.
    """

    def __init__(self, progress: Progress = lambda _: None) -> None:
        self._progress = progress
        self._running: RunningSandbox | None = None
        self._caller: Caller | None = None
        self._policy: dict[str, Any] = {}
        self._keys: Keyring | None = None
        self._turns = itertools.count(1)
        self._mark = Mark()
        self._plans: dict[str, Plan] = {}
        self._encoded: dict[str, BothForms] = {}
        self.began: Snapshot | None = None
        self.starts = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await asyncio.shield(self.close())

    async def close(self) -> None:
        caller, running = self._caller, self._running
        if caller is not None:
            await caller.close()
        if running is not None:
            await running.close()
        # Another may have been started meanwhile, which is not closed by this.
        if self._running is running:
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
        self.began = snapshot = await self.snapshot()
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
        with contextlib.suppress(InferDeckError):  # whatever its learner did to it: a new one is always to be had
            for _ in range(TRIES):
                await self._put_back(sandbox, names)
                if names == {worker.id for worker in (await self.snapshot()).workers}:
                    return True
        return False

    async def _put_back(self, sandbox: Sandbox, names: set[str]) -> None:
        """Whatever was done to it, by the lesson or by its learner, is undone. ``names`` are its workers'."""
        await self._calls.leave()
        async with self._client() as client:
            snapshot = await client.get_snapshot()
            await at_once(partial(_end, client), [each.id for each in snapshot.requests if each.phase.active])
            await client.access.set_policy(document=json.dumps(self._policy))
            await self._ring.put_back(client.access, self._on.key)
            for worker in snapshot.workers:
                with contextlib.suppress(InferDeckError):  # one that is gone has nothing to put back
                    await client.uncordon(worker.id)
                    if sandbox.engine == "sim":
                        await client.inject(worker.id, heal=True)
                    if worker.phase is WorkerPhase.ASLEEP:
                        await client.wake(worker.id)
            there = {worker.id for worker in snapshot.workers}
            if there != names:
                # Lessons know their workers by name. A new one has the lowest free number; of those that have nothing
                # to do the fleet lets go of those that are cordoned.
                many = len(there | names)
                await client.scale(POOL, many)
                await self._until(lambda seen: settled(seen, many), "the workers did not come", CHANGE_S)
                await self._at_rest()
                await asyncio.gather(*(client.cordon(name) for name in there - names))
            await client.scale(POOL, sandbox.replicas)
        # Not before: a gateway does not come up while its only worker is cordoned.
        if not self._on.as_wanted:
            await self._restart({})
        await self._until(lambda seen: settled(seen, sandbox.replicas), "the sandbox is not as it was", CHANGE_S)
        await self._at_rest()

    async def act(self, action: Action) -> None:
        if isinstance(action, Calls):
            await self._call(action)
            self._calls.check()
        elif isinstance(action, Cancel):
            await self._cancel(action.calls)
        elif isinstance(action, Crash):
            await self._crash(action)
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
        self._mark.restarted()

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
            await self._until(as_wanted, "the workers did not come", CHANGE_S)

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

        try:
            async with self._client() as client, asyncio.timeout(SETTLE_S):
                while mine():
                    await at_once(partial(_end, client), [made.request_id for made in mine()])
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise NotDone(f"the calls {name!r} did not end (waited {SETTLE_S:.0f} s)") from None

    async def _crash(self, action: Crash) -> None:
        made = self._calls.latest.get(action.calls)
        if made is None:
            raise NotDone(f"no call {action.calls!r} was made yet")
        async with self._client() as client:
            await crash_under(client, made, action.times)

    async def mark(self) -> None:
        self._calls.mark()
        self._plans, self._encoded = {}, {}
        async with self._client() as client:
            await self._mark.set(client)

    async def observe(self) -> Observation:
        self._calls.check()
        await self._at_rest()
        async with self._client() as client:
            snapshot = await client.get_snapshot(finished_requests=True)
            policy = await client.access.policy()
            events = await self._mark.events(client)
            inside = await self._mark.inside(client, snapshot)
            views = {request.id: request for request in snapshot.requests}
            hops = await hops_by_call(client, [made for made in self._calls.ended if made.request_id in views])
        running = tuple(made.shape.name for made in self._calls.running)
        calls = tuple(made.seen(views.get(made.request_id), hops.get(made.request_id)) for made in self._calls.ended)
        return Observation(
            snapshot,
            calls,
            inside.steps,
            inside.blocks,
            events,
            policy.routing.profile or self._on.sandbox.profile,
            inside.lost_steps,
            self._mark.requests(snapshot),
            plans=dict(self._plans),
            encoded=dict(self._encoded),
            conversations=await self._conversations(calls),
            running=running,
        )

    async def _conversations(self, calls: Iterable[CallSeen]) -> dict[str, tuple[ItemSeen, ...]]:
        """Those that these calls were in."""
        names = {call.conversation for call in calls} - {""}
        return {name: await self._calls.conversations.read(self._on.endpoint, name) for name in names}

    async def show(self, view: View, of: str) -> tuple[str, ...]:
        async with self._client() as client:
            if view in ("workers", "requests", "blocks", "steps", "events"):
                return await view_lines(client, view, of)
            return await call_view_lines(client, view, of, self._on, self._calls)

    async def _at_rest(self) -> None:
        running = {made.request_id for made in self._calls.running}
        over = {made.request_id for made in self._calls.ended if made.told_of}
        async with self._client() as client:
            await at_rest(client, running, over)

    async def snapshot(self) -> Snapshot:
        async with self._client() as client:
            return await client.get_snapshot(finished_requests=True)

    async def _until(self, fact: Callable[[Snapshot], bool], otherwise: str, within_s: float) -> None:
        """Raises NotDone."""
        async with self._client() as client:
            await until(client, fact, otherwise, within_s)


async def _end(client: OperatorClient, request_id: str) -> None:
    """It may have ended by itself."""
    with contextlib.suppress(NotFound):
        await client.cancel(request_id)


def _label(snapshot: Snapshot) -> str:
    infos = [worker.info for worker in snapshot.workers if worker.info is not None]
    if not infos:
        return "nothing yet"
    info = infos[0]
    name = "vLLM" if info.engine == "vllm" else info.engine
    what = "simulated " if info.engine == "sim" else f"real {name} {info.engine_version} on "
    model = f" · {info.model.name}" if info.model is not None and info.engine != "sim" else ""
    # How many GPUs a worker has is for the learner to find.
    device = re.sub(r" x\d+$", "", info.device.removeprefix("sim:"))
    return f"{what}{device}{model} · {len(infos)} {'worker' if len(infos) == 1 else 'workers'}"
