"""The gRPC services of ``operator.proto``, with health and reflection, on one port."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import math
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from control_plane.api.access_service import AccessService, HomeSecret
from control_plane.api.answering import Context, stream, unary, write
from control_plane.api.auth import Access, OperatorAuth
from control_plane.api.caller import require
from control_plane.api.decision_desk import DecisionDesk
from control_plane.api.fleet_service import FleetService
from control_plane.api.history_service import HistoryService
from control_plane.api.kept import Kept
from control_plane.api.readable import Readable
from control_plane.api.routing_feed import RoutingFeed
from control_plane.api.trail import Trail
from control_plane.contracts.access import Role
from control_plane.contracts.errors import Conflict, InvalidRequest
from control_plane.contracts.identity import Peer
from control_plane.contracts.sleep import SHALLOW
from control_plane.contracts.step import TraceMode, TraceState
from control_plane.contracts.v1 import (
    access_pb2_grpc,
    decision_pb2,
    history_pb2_grpc,
    operator_pb2_grpc,
    routing_pb2,
    worker_pb2,
)
from control_plane.contracts.v1 import operator_pb2 as pb
from control_plane.contracts.wire.channel import SERVER_OPTIONS
from control_plane.contracts.wire.convert import to_wire
from control_plane.contracts.wire.failures import failure_from_wire
from control_plane.contracts.wire.secure import PeerGate, listen
from control_plane.contracts.wire.steps import trace_mode
from control_plane.fleet.named import engine_of, named
from control_plane.fleet.platform import Platform
from control_plane.tasks import Works

SERVICES: Final = ("inferdeck.v1.Operator", "inferdeck.v1.Access", "inferdeck.v1.History", "inferdeck.v1.Fleet")

PEERS: Final = {
    "/": frozenset({Peer.OPERATOR}),
    "/inferdeck.v1.Fleet/": frozenset({Peer.GATEWAY, Peer.ROUTER}),
    "/grpc.health.v1.Health/": frozenset(Peer),
}
"""Who may call what, by the certificate."""

WATCH_INTERVAL_S: Final = 0.5
SHORTEST_INTERVAL_S: Final = 0.05
WATCH_AT_LEAST_S: Final = 2.0

_CORDON: Final = ({"cordoned": False}, {"cordoned": True})

log = logging.getLogger(__name__)


class ApiServer:
    """``bind`` takes the port, ``start`` answers; nobody is answered in between. With ``credentials`` (a file) callers
    have to prove which peer they are beside showing their key."""

    def __init__(
        self,
        platform: Platform,
        operator_key: str,
        access: Access,
        home_secret: HomeSecret,
        credentials: str = "",
    ) -> None:
        self._credentials = credentials
        gates: tuple[grpc.aio.ServerInterceptor, ...] = (OperatorAuth(operator_key, access), Readable())
        if credentials:
            gates = (PeerGate(PEERS), *gates)
        self._server = grpc.aio.server(interceptors=gates, options=SERVER_OPTIONS)
        self._health = health.aio.HealthServicer()
        self._trail = trail = Trail(access.audit)
        self._routing = routing = RoutingFeed(access.policies, platform.snapshots.lead)
        self._operator = operator = _Operator(platform, trail, routing)
        operator_pb2_grpc.add_OperatorServicer_to_server(operator, self._server)  # type: ignore[no-untyped-call]
        self._feeding: asyncio.Task[None] | None = None
        self._access = AccessService(access, home_secret, routing.policy_changed, platform.pools.models)
        access_pb2_grpc.add_AccessServicer_to_server(self._access, self._server)  # type: ignore[no-untyped-call]
        history = HistoryService(platform.conversations, trail)
        history_pb2_grpc.add_HistoryServicer_to_server(history, self._server)  # type: ignore[no-untyped-call]
        operator_pb2_grpc.add_FleetServicer_to_server(FleetService(platform, routing), self._server)  # type: ignore[no-untyped-call]
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection((*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)

    def bind(self, host: str, port: int) -> str:
        """The address that was taken; port 0 is any. Raises Conflict if it cannot be had."""
        try:
            return f"{host}:{listen(self._server, f'{host}:{port}', self._credentials)}"
        except RuntimeError as error:
            raise Conflict(
                f"api.port: cannot listen on {host}:{port}: {error}",
                param="api.port",
                hint="set host and port in [api] of the config file; port 0 takes any free one",
            ) from None

    async def start(self) -> None:
        self._feeding = asyncio.create_task(self._routing.run(), name="routing-feed")
        await self._server.start()
        for name in ("", *SERVICES):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace_s: float = 1.0) -> None:
        """Let calls that run end within the grace, then cut them."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)
        if self._feeding is not None:
            self._feeding.cancel()
        await asyncio.gather(self._operator.works.end(grace_s), self._access.works.end(grace_s))
        await self._trail.written()


class _Operator(operator_pb2_grpc.OperatorServicer):
    def __init__(self, platform: Platform, trail: Trail, routing: RoutingFeed) -> None:
        self._platform = platform
        self._decisions = DecisionDesk(platform.decisions, routing)
        self._operations = platform.operations
        self._trail = trail
        self.works = Works()
        self._built = {finished: Kept(platform.changes, partial(self._build, finished)) for finished in (False, True)}

    @unary
    async def GetSnapshot(self, request: pb.GetSnapshotRequest, context: Context) -> pb.Snapshot:  # noqa: N802
        return self._built[request.finished_requests].get()

    @stream
    async def Watch(self, request: pb.WatchRequest, context: Context) -> AsyncIterator[pb.Snapshot]:  # noqa: N802
        asked = request.interval_s
        if asked < 0 or not math.isfinite(asked):
            raise InvalidRequest("interval_s is seconds, or 0 for the default", param="interval_s")
        interval = max(asked, SHORTEST_INTERVAL_S) if asked else WATCH_INTERVAL_S
        changes = self._platform.changes
        while True:
            snapshot = self._built[request.finished_requests].get()
            # The next one is built when this one has been taken: who reads slowly skips, and nothing piles up.
            yield snapshot
            await asyncio.sleep(interval)
            await changes.after(snapshot.revision, WATCH_AT_LEAST_S - interval)

    @write
    async def Cordon(self, request: pb.WorkerRef, context: Context) -> pb.ActionResult:  # noqa: N802
        result = await self._operations.cordon(request.worker_id, dry_run=request.dry_run)
        if result.changed and not request.dry_run:
            await self._trail.left("worker.cordon", f"worker/{request.worker_id}", _CORDON[False], _CORDON[True])
        return to_wire(result, pb.ActionResult)

    @write
    async def Uncordon(self, request: pb.WorkerRef, context: Context) -> pb.ActionResult:  # noqa: N802
        result = await self._operations.uncordon(request.worker_id, dry_run=request.dry_run)
        if result.changed and not request.dry_run:
            await self._trail.left("worker.uncordon", f"worker/{request.worker_id}", _CORDON[True], _CORDON[False])
        return to_wire(result, pb.ActionResult)

    @stream
    async def Drain(  # noqa: N802
        self, request: pb.DrainWorkerRequest, context: Context
    ) -> AsyncIterator[pb.DrainProgress]:
        if request.timeout_s < 0 or not math.isfinite(request.timeout_s):
            raise InvalidRequest("timeout_s is seconds, or 0 for no end", param="timeout_s")
        if not request.dry_run:
            controller = self._platform.controller
            after = {"draining": True, "in_flight": controller.in_flight(named(controller, request.worker_id))}
            await self._trail.left("worker.drain", f"worker/{request.worker_id}", {}, after)
        async for progress in self._operations.drain(request.worker_id, request.timeout_s, dry_run=request.dry_run):
            yield to_wire(progress, pb.DrainProgress)

    @write
    async def Scale(self, request: pb.ScaleRequest, context: Context) -> pb.ActionResult:  # noqa: N802
        pools = self._platform.pools
        before = pools.replicas(request.pool) if request.pool in pools.settings else 0
        result = await self._operations.scale(request.pool, request.replicas, dry_run=request.dry_run)
        if result.changed and not request.dry_run:
            after = {"replicas": request.replicas}
            await self._trail.left("pool.scale", f"pool/{request.pool}", {"replicas": before}, after)
        return to_wire(result, pb.ActionResult)

    @unary
    async def GetTimeline(self, request: pb.TimelineRequest, context: Context) -> pb.Timeline:  # noqa: N802
        return to_wire(await self._platform.timelines.of(request.request_id), pb.Timeline)

    @unary
    async def Explain(self, request: decision_pb2.ExplainRequest, context: Context) -> decision_pb2.Explanation:  # noqa: N802
        return await self._decisions.explain(request)

    @unary
    async def ListDecisions(  # noqa: N802
        self, request: decision_pb2.ListDecisionsRequest, context: Context
    ) -> decision_pb2.DecisionList:
        return await self._decisions.newest(request)

    @unary
    async def ReplayDecisions(  # noqa: N802
        self, request: decision_pb2.ReplayDecisionsRequest, context: Context
    ) -> decision_pb2.DecisionReplay:
        return await self._decisions.again(request)

    @stream
    async def WatchSteps(  # noqa: N802
        self, request: pb.WorkerStepsRequest, context: Context
    ) -> AsyncIterator[worker_pb2.StepFrame]:
        engine = engine_of(self._platform.controller, request.worker_id)
        told = engine.step_frames(request.from_step, live=request.live, last_steps=request.last_steps)
        async with contextlib.aclosing(told) as frames:
            async for frame in frames:
                yield frame

    @write
    async def SetTrace(self, request: pb.WorkerTraceRequest, context: Context) -> worker_pb2.TraceState:  # noqa: N802
        engine = engine_of(self._platform.controller, request.worker_id)
        mode = trace_mode(request.mode)
        if mode is not TraceMode.UNSPECIFIED:
            require(Role.OPERATOR, "to change a trace")
        state = before = await engine.set_trace(TraceMode.UNSPECIFIED, 1)
        what, was = ("worker.trace", f"worker/{request.worker_id}"), _trace(before)
        if mode is not TraceMode.UNSPECIFIED and not request.dry_run:
            async with self._trail.unfinished(*what, was, dry_run=False):
                state = await engine.set_trace(mode, request.every)
        if (now := _trace(state)) != was:
            await self._trail.left(*what, was, now)
        return to_wire(state, worker_pb2.TraceState)

    @write
    async def Inject(  # noqa: N802
        self, request: pb.WorkerInjectRequest, context: Context
    ) -> worker_pb2.InjectResponse:
        failure = failure_from_wire(request.failure) if request.HasField("failure") else None
        if failure is not None or request.heal:
            require(Role.OPERATOR, "to make a worker fail")
        changes = (failure is not None or request.heal) and not request.dry_run
        given = (failure, request.heal) if changes else (None, False)
        what = ("worker.inject", f"worker/{request.worker_id}", dict[str, Any]())
        async with self._trail.unfinished(*what, dry_run=not changes):
            failures = await self._operations.inject(request.worker_id, given[0], heal=given[1])
        if changes:
            told = {} if failure is None else {**dataclasses.asdict(failure), "kind": str(failure.kind)}
            await self._trail.left(*what, told | {"healed": request.heal})
        return worker_pb2.InjectResponse(failures=[to_wire(each, worker_pb2.Failure) for each in failures])

    @write
    async def Sleep(self, request: pb.WorkerSleepRequest, context: Context) -> pb.ActionResult:  # noqa: N802
        level = request.level or SHALLOW
        result = await self._trail.of(
            self._operations.sleep(request.worker_id, level, dry_run=request.dry_run),
            "worker.sleep",
            f"worker/{request.worker_id}",
            {"sleep_level": 0},
            {"sleep_level": level},
            dry_run=request.dry_run,
        )
        return to_wire(result, pb.ActionResult)

    @write
    async def Wake(self, request: pb.WorkerRef, context: Context) -> pb.ActionResult:  # noqa: N802
        load = named(self._platform.controller, request.worker_id).load
        result = await self._trail.of(
            self._operations.wake(request.worker_id, dry_run=request.dry_run),
            "worker.wake",
            f"worker/{request.worker_id}",
            {"sleep_level": load.sleep_level if load is not None else 0},
            {"sleep_level": 0},
            dry_run=request.dry_run,
        )
        return to_wire(result, pb.ActionResult)

    @unary
    async def GetBlocks(self, request: pb.WorkerRef, context: Context) -> worker_pb2.BlockSnapshot:  # noqa: N802
        engine = engine_of(self._platform.controller, request.worker_id)
        return to_wire(await engine.blocks(), worker_pb2.BlockSnapshot)

    @unary
    async def GetRouter(self, request: pb.RouterRef, context: Context) -> routing_pb2.RouterState:  # noqa: N802
        return to_wire(await self._platform.router_state(request.router_id), routing_pb2.RouterState)

    @write
    async def CancelRequest(self, request: pb.CancelRequestRequest, context: Context) -> pb.ActionResult:  # noqa: N802
        result = await self._trail.of(
            self._operations.cancel(request.request_id, dry_run=request.dry_run),
            "request.cancel",
            f"request/{request.request_id}",
            {},
            {"cancelled": True},
            dry_run=request.dry_run,
        )
        return to_wire(result, pb.ActionResult)

    @stream
    async def Logs(self, request: pb.LogsRequest, context: Context) -> AsyncIterator[pb.LogChunk]:  # noqa: N802
        logs = self._platform.logs
        path = logs.find(request.target)
        async for data in logs.read(path, request.tail_lines, follow=request.follow):
            yield pb.LogChunk(data=data)

    @stream
    async def Events(self, request: pb.EventsRequest, context: Context) -> AsyncIterator[pb.Event]:  # noqa: N802
        events = self._platform.events
        if not request.follow:
            for event in await events.since(request.since):
                yield to_wire(event, pb.Event)
            return
        async for event in events.follow(request.since):
            yield to_wire(event, pb.Event)

    @stream
    async def Shutdown(  # noqa: N802
        self, request: pb.ShutdownRequest, context: Context
    ) -> AsyncIterator[pb.ShutdownProgress]:
        grace_s = request.grace_s
        if grace_s < 0 or not math.isfinite(grace_s):
            raise InvalidRequest("grace_s is seconds, or 0 to end requests now", param="grace_s")
        await self._trail.left("platform.shutdown", "platform", {}, {"grace_s": grace_s})
        async for progress in self._platform.shutdown(grace_s):
            yield to_wire(progress, pb.ShutdownProgress)

    def _build(self, finished: bool) -> pb.Snapshot:
        return to_wire(self._platform.snapshots.snapshot(finished_requests=finished), pb.Snapshot)


def _trace(state: TraceState) -> dict[str, Any]:
    return {"mode": state.mode.name.lower(), "every": state.every}
