"""A router with a fleet that the test plays and real workers, all over real gRPC."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import grpc

from control_plane.contracts.admission import DEFAULT_SERVICE, Service
from control_plane.contracts.call import RoutedCall
from control_plane.contracts.decision import DecisionQuestion
from control_plane.contracts.errors import InferDeckError, Unauthenticated
from control_plane.contracts.fleet import (
    Endpoint,
    EndpointSet,
    GatewayIdentity,
    GatewayStats,
    Member,
    ModelView,
    RequestView,
    RouterEndpoint,
    RouterReport,
    RouterSet,
    WorkerPhase,
)
from control_plane.contracts.routing import Routing
from control_plane.contracts.v1 import decision_pb2, operator_pb2_grpc, routing_pb2, worker_pb2
from control_plane.contracts.v1 import operator_pb2 as pb
from control_plane.contracts.v1.worker_pb2_grpc import WorkerStub
from control_plane.contracts.wire.channel import SERVER_OPTIONS
from control_plane.contracts.wire.convert import from_wire, to_wire
from control_plane.contracts.wire.status import abort_with
from control_plane.contracts.worker import Delta, Load, Sampling, WorkerInfo
from control_plane.router.embedded import EmbeddedRouter
from control_plane.router.remote import RemoteRouter
from control_plane.router.remote.link import RouterLink
from control_plane.router.server import RouterServer
from control_plane.settings.model import RouterSettings
from workers.engine.modelless.tokenizer import ByteTokenizer, builtin_files

KEY = "op-inferdeck-test"
MODEL = "scripted-model"
GENEROUS_S = 30.0
TOKENIZER = ByteTokenizer(builtin_files())


async def until(condition: Callable[[], Any], what: str = "it") -> None:
    """Wait, generously, until the condition holds."""
    deadline = time.monotonic() + GENEROUS_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        await asyncio.sleep(0.005)


class WaitingSink:
    """Collects an answer; ``ended`` is set by its end, ``first`` by its first delta."""

    def __init__(self) -> None:
        self.deltas: list[Delta] = []
        self.times: list[float] = []
        self.error: InferDeckError | None = None
        self.first = asyncio.Event()
        self.ended = asyncio.Event()

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.deltas)

    @property
    def tokens(self) -> int:
        return sum(len(delta.token_ids) for delta in self.deltas)

    def delta(self, delta: Delta) -> None:
        assert not self.ended.is_set(), "something came after the end"
        self.deltas.append(delta)
        self.times.append(time.monotonic())
        self.first.set()
        if delta.done is not None:
            self.ended.set()

    def failed(self, error: InferDeckError) -> None:
        assert not self.ended.is_set(), "something came after the end"
        self.error = error
        self.ended.set()

    async def end(self) -> WaitingSink:
        async with asyncio.timeout(GENEROUS_S):
            await self.ended.wait()
        return self

    async def begun(self) -> WaitingSink:
        async with asyncio.timeout(GENEROUS_S):
            await self.first.wait()
        return self


class FleetServicer(operator_pb2_grpc.FleetServicer):
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def Join(self, reports: AsyncIterator[pb.RouterReport], context: Any) -> None:  # noqa: N802
        metadata = dict(context.invocation_metadata())
        if metadata.get("authorization") != f"Bearer {KEY}":
            await abort_with(context, Unauthenticated("wrong operator key"))
        outbox: asyncio.Queue[pb.FleetUpdate] = asyncio.Queue()
        self._fleet.joined.append(outbox)
        outbox.put_nowait(self._fleet.update())
        outbox.put_nowait(self._fleet.router_update())

        async def read() -> None:
            async for report in reports:
                self._fleet.reports.append(from_wire(report, RouterReport))

        reader = asyncio.create_task(read())
        try:
            while True:
                await context.write(await outbox.get())
        finally:
            reader.cancel()
            self._fleet.joined.remove(outbox)


@dataclass
class Fleet:
    """The control plane as far as a router sees it. ``workers`` is what the set says; ``publish`` sends it."""

    workers: dict[str, Endpoint] = field(default_factory=dict)
    routers: dict[str, RouterEndpoint] = field(default_factory=dict)
    models: tuple[ModelView, ...] = (ModelView(MODEL, "scripted"), ModelView("empty", "nobody"))
    address: str | None = None
    joined: list[asyncio.Queue[pb.FleetUpdate]] = field(default_factory=list)
    reports: list[RouterReport] = field(default_factory=list)
    server: Any = None

    async def start(self) -> None:
        self.server = grpc.aio.server(options=SERVER_OPTIONS)
        add: Any = operator_pb2_grpc.add_FleetServicer_to_server
        add(FleetServicer(self), self.server)
        port = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()
        self.address = f"127.0.0.1:{port}"

    async def stop(self) -> None:
        if self.server is not None:
            await self.server.stop(0)
            self.server = None

    def update(self) -> pb.FleetUpdate:
        endpoints = EndpointSet(1, tuple(self.workers.values()), self.models)
        return pb.FleetUpdate(endpoints=to_wire(endpoints, pb.EndpointSet))

    def router_update(self) -> pb.FleetUpdate:
        return pb.FleetUpdate(routers=to_wire(RouterSet(1, tuple(self.routers.values())), pb.RouterSet))

    def publish(self) -> None:
        for outbox in self.joined:
            outbox.put_nowait(self.update())
            outbox.put_nowait(self.router_update())

    def route(self, routing: Routing) -> None:
        for outbox in self.joined:
            outbox.put_nowait(pb.FleetUpdate(routing=to_wire(routing, routing_pb2.Routing)))

    def ask(self, question: DecisionQuestion) -> None:
        for outbox in self.joined:
            outbox.put_nowait(pb.FleetUpdate(question=to_wire(question, decision_pb2.DecisionQuestion)))

    def cancel(self, request_id: str) -> None:
        for outbox in self.joined:
            outbox.put_nowait(pb.FleetUpdate(cancel=pb.CancelCommand(request_id=request_id)))

    async def add(self, worker: Any, **changes: Any) -> str:
        """Take in a scripted worker or server; returns its id."""
        info = await worker_info(worker.address)
        endpoint = Endpoint(
            info.worker_id, info.instance_id, worker.address, "scripted", MODEL, WorkerPhase.READY, info=info
        )
        self.workers[info.worker_id] = replace(endpoint, **changes)
        self.publish()
        return info.worker_id

    def change(self, worker_id: str, **changes: Any) -> None:
        self.workers[worker_id] = replace(self.workers[worker_id], **changes)
        self.publish()

    @property
    def last(self) -> RouterReport:
        return self.reports[-1]

    @property
    def ended(self) -> dict[str, RequestView]:
        return {view.id: view for report in self.reports for view in report.ended}


async def worker_info(address: str) -> WorkerInfo:
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = WorkerStub(channel)  # type: ignore[no-untyped-call]
        return from_wire(await stub.GetInfo(worker_pb2.GetInfoRequest(), timeout=10), WorkerInfo)


async def worker_load(address: str) -> Load:
    """The load now."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = WorkerStub(channel)  # type: ignore[no-untyped-call]
        stream = stub.WatchLoad(worker_pb2.WatchLoadRequest(), timeout=10)
        load = from_wire(await stream.read(), Load)
        stream.cancel()
        return load


async def worker_requests(address: str) -> list[str]:
    return list(await worker_priorities(address))


async def worker_priorities(address: str) -> dict[str, int]:
    """By request id."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = WorkerStub(channel)  # type: ignore[no-untyped-call]
        answer = await stub.ListRequests(worker_pb2.ListRequestsRequest(), timeout=10)
        return {request.request_id: request.priority for request in answer.requests}


@dataclass
class Rig:
    router: Any
    fleet: Fleet
    ids: Any = field(default_factory=lambda: itertools.count(1))

    def call(
        self,
        script: dict[str, Any] | None = None,
        *,
        request_id: str = "",
        model: str = MODEL,
        stream: bool = True,
        max_tokens: int = 1000,
        n: int = 1,
        prompt: str = "hello",
        salt: str = "",
        service: Service = DEFAULT_SERVICE,
        priority: int = 0,
        flow: str = "",
        **sampling: Any,
    ) -> RoutedCall:
        text = prompt if script is None else json.dumps({"script": script})
        return RoutedCall(
            request_id=request_id or f"req-{next(self.ids)}",
            model=model,
            prompt_token_ids=TOKENIZER.encode(text),
            sampling=Sampling(max_tokens=max_tokens, n=n, **sampling),
            stream=stream,
            arrival_unix=time.time(),
            arrival_mono=time.monotonic(),
            key_id="k1",
            cache_salt=salt,
            service=service,
            priority=priority,
            flow=flow,
        )

    def submit(self, script: dict[str, Any] | None = None, **more: Any) -> tuple[Any, WaitingSink]:
        sink = WaitingSink()
        return self.router.submit(self.call(script, **more), sink), sink

    async def ready(self, workers: int = 1) -> None:
        await until(
            lambda: sum(target.candidate.connected for target in self.router.dispatcher.targets.all()) >= workers,
            f"{workers} connected workers",
        )

    def counts(self) -> dict[str, tuple[int, int, float]]:
        """Worker id → requests, sequences and tokens that the router holds there."""
        candidates = [target.candidate for target in self.router.dispatcher.targets.all()]
        return {c.worker_id: (c.requests, c.sequences, c.tokens) for c in candidates}

    def check_idle(self) -> None:
        assert all(count == (0, 0, 0.0) for count in self.counts().values())
        assert self.router.dispatcher.queued == 0


@asynccontextmanager
async def rig(
    workers: Sequence[Any] = (), *, key: str = KEY, stats: GatewayStats | None = None, **settings: Any
) -> AsyncIterator[Rig]:
    """A router that has joined a fleet of these workers and is connected to all of them."""
    fleet = Fleet()
    await fleet.start()
    for worker in workers:
        await fleet.add(worker)
    given = stats or GatewayStats(ready=True, in_flight=3, requests_total=9, responses={200: 8, 404: 1})
    router = EmbeddedRouter(
        router_id="g1",
        identity=lambda: GatewayIdentity("g1", os.getpid(), "http://127.0.0.1:1", 12.0),
        fleet_address=lambda: fleet.address,
        operator_key=lambda: key,
        stats=lambda: given,
        settings=RouterSettings(**{"profile": "least_load", "queue_timeout_s": 20.0, **settings}),
        rng=Random(1),
    )
    await router.start()
    try:
        made = Rig(router, fleet)
        if workers:
            await made.ready(len(workers))
        yield made
    finally:
        await router.close()
        await fleet.stop()


@dataclass
class HostedRouter:
    """A router behind its server, as its process has it."""

    core: EmbeddedRouter
    server: RouterServer

    async def die(self) -> None:
        """Its streams break, as they do when its process is killed: the fleet's, the gateways' and the workers'."""
        assert self.core._watching is not None
        self.core._watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.core._watching
        await self.server.stop()
        await self.core.close()


@dataclass
class RemoteRig(Rig):
    """A gateway's side, and the routers by id."""

    hosts: dict[str, HostedRouter] = field(default_factory=dict)

    @property
    def links(self) -> dict[str, RouterLink]:
        """By the router's id; those whose stream lives."""
        links: list[RouterLink] = list(self.router._links.values())
        return {link.endpoint.id: link for link in links if link.standing.connected}

    def where(self, handle: Any) -> str:
        """The router that has the call; "" where none has."""
        return str(handle.link.endpoint.id) if handle.link is not None else ""

    async def ready(self, workers: int = 1) -> None:
        def reached() -> bool:
            links = self.links.values()
            return len(links) == len(self.hosts) and all(
                sum(view.ready_workers for view in link.models) >= workers for link in links
            )

        await until(reached, f"{len(self.hosts)} routers that reach {workers} workers each")

    def counts(self) -> dict[str, tuple[int, int, float]]:
        """Of all routers together."""
        sums: dict[str, tuple[int, int, float]] = {}
        for host in self.hosts.values():
            for target in host.core.dispatcher.targets.all():
                c, before = target.candidate, sums.get(target.worker_id, (0, 0, 0.0))
                sums[c.worker_id] = (before[0] + c.requests, before[1] + c.sequences, before[2] + c.tokens)
        return sums

    def check_idle(self) -> None:
        assert all(count == (0, 0, 0.0) for count in self.counts().values())
        assert all(host.core.in_flight == host.core.dispatcher.queued == 0 for host in self.hosts.values())
        assert all(not link.calls and not link.standing.own for link in self.router._links.values())
        assert self.router.stats().queued == 0

    async def start_router(self, name: str) -> HostedRouter:
        """One more router, which the fleet tells gateways of."""
        server = RouterServer(name)
        address = server.bind("127.0.0.1", 0)
        core = EmbeddedRouter(
            router_id=name,
            identity=lambda: GatewayIdentity(name, os.getpid(), address, server.started_unix, Member.ROUTER),
            fleet_address=lambda: self.fleet.address,
            operator_key=lambda: KEY,
            stats=server.stats,
            settings=self.router._settings,
            rng=Random(name),
        )
        await core.start()
        await server.start(core)
        self.hosts[name] = HostedRouter(core, server)
        self.fleet.routers[name] = RouterEndpoint(name, address)
        self.fleet.publish()
        return self.hosts[name]

    async def kill(self, name: str) -> None:
        """A router dies, and the fleet learns of it."""
        host = self.hosts.pop(name)
        del self.fleet.routers[name]
        await host.die()
        self.fleet.publish()


@asynccontextmanager
async def remote_rig(
    workers: Sequence[Any] = (), *, routers: int = 1, stats: GatewayStats | None = None, **settings: Any
) -> AsyncIterator[RemoteRig]:
    """A gateway's side of so many routers, all of which have joined a fleet of these workers."""
    fleet = Fleet()
    await fleet.start()
    for worker in workers:
        await fleet.add(worker)
    given = stats or GatewayStats(ready=True)
    router = RemoteRouter(
        gateway_id="g1",
        identity=lambda: GatewayIdentity("g1", os.getpid(), "http://127.0.0.1:1", 12.0, Member.FRONT),
        fleet_address=lambda: fleet.address,
        operator_key=lambda: KEY,
        stats=lambda: given,
        settings=RouterSettings(**{"queue_timeout_s": 20.0, "replicas": routers, **settings}),
        rng=Random(1),
    )
    made = RemoteRig(router, fleet)
    await router.start()
    try:
        for number in range(1, routers + 1):
            await made.start_router(f"r{number}")
        if workers:
            await made.ready(len(workers))
        yield made
    finally:
        await router.close()
        for host in made.hosts.values():
            await host.die()
        await fleet.stop()
