"""What routers hear and say: how to choose, endpoints, cancels and questions down, requests and answers up."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Final

from control_plane.api.answering import Context, told
from control_plane.api.kept import Kept
from control_plane.api.readable import readable
from control_plane.api.routing_feed import RoutingFeed
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.fleet import GatewayIdentity, Member, RouterEndpoint, RouterReport
from control_plane.contracts.v1 import decision_pb2, operator_pb2_grpc, routing_pb2
from control_plane.contracts.v1 import operator_pb2 as pb
from control_plane.contracts.wire.convert import from_wire, to_wire
from control_plane.contracts.wire.status import abort_with
from control_plane.fleet.platform import Platform
from control_plane.fleet.routers import Session

ENDPOINT_GAP_S: Final = 0.02
"""Changes of structure that come together go out together."""

ROUTERS_GAP_S: Final = 0.1
"""How often at most a gateway is told where routers are: its streams tell it how they do."""

LOADS_EVERY_S: Final = 0.5

IDLE_EVERY_S: Final = 1.4
"""While no router has reported a request. Samples get no older than that and a heartbeat, which is not stale yet."""

log = logging.getLogger(__name__)


class FleetService(operator_pb2_grpc.FleetServicer):
    def __init__(self, platform: Platform, routing: RoutingFeed) -> None:
        self._platform = platform
        self._routing = routing
        self._endpoints = Kept(platform.changes, self._build_endpoints)

    async def Join(self, reports: AsyncIterator[pb.RouterReport], context: Context) -> None:  # noqa: N802
        routers = self._platform.routers
        session: Session | None = None
        tasks: set[asyncio.Task[None]] = set()
        try:
            session = routers.join(await _hello(reports))
            log.info("a router joined", extra={"gateway": session.identity.id})
            writing = asyncio.Lock()
            tasks = {
                asyncio.create_task(self._listen(session, reports)),
                *self._telling(session, context, writing),
                asyncio.create_task(self._tell_cancels(session, context, writing)),
                asyncio.create_task(self._ask(session, context, writing)),
            }
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        except Exception as error:
            await abort_with(context, told(error, "Join"))
        finally:
            for task in tasks:
                task.cancel()
            if session is not None:
                routers.leave(session)
                log.info("a router left", extra={"gateway": session.identity.id})

    async def _listen(self, session: Session, reports: AsyncIterator[pb.RouterReport]) -> None:
        async for wire in reports:
            self._platform.routers.report(session, from_wire(readable(wire), RouterReport))

    def _telling(self, session: Session, context: Context, writing: asyncio.Lock) -> set[asyncio.Task[None]]:
        """A gateway that asks routers hears where they are; whoever routes hears of workers, and how to choose."""
        if session.identity.kind == Member.FRONT:
            return {asyncio.create_task(self._tell_routers(context, writing))}
        return {
            asyncio.create_task(self._tell_routing(context, writing)),
            asyncio.create_task(self._tell_endpoints(context, writing)),
        }

    async def _tell_routers(self, context: Context, writing: asyncio.Lock) -> None:
        changes = self._platform.changes
        told: tuple[RouterEndpoint, ...] | None = None
        while True:
            revision, routers = changes.revision, self._platform.snapshots.routers()
            if routers.routers != told:
                told = routers.routers
                async with writing:
                    await context.write(pb.FleetUpdate(routers=to_wire(routers, pb.RouterSet)))
            await asyncio.sleep(ROUTERS_GAP_S)
            await changes.after(revision, LOADS_EVERY_S)

    async def _tell_routing(self, context: Context, writing: asyncio.Lock) -> None:
        revision = 0
        while True:
            await self._routing.after(revision)
            revision, routing = self._routing.revision, self._routing.current
            async with writing:
                await context.write(pb.FleetUpdate(routing=to_wire(routing, routing_pb2.Routing)))

    async def _tell_endpoints(self, context: Context, writing: asyncio.Lock) -> None:
        changes = self._platform.changes
        while True:
            async with writing:
                structure = changes.structure
                await context.write(self._endpoints.get())
            await asyncio.sleep(ENDPOINT_GAP_S)
            sent = time.monotonic()
            while not await changes.after(structure, LOADS_EVERY_S, structural=True):
                if self._platform.requests.any_active() or time.monotonic() - sent >= IDLE_EVERY_S:
                    break

    async def _tell_cancels(self, session: Session, context: Context, writing: asyncio.Lock) -> None:
        """Until the router is to leave."""
        while (request_id := await session.cancels.get()) is not None:
            async with writing:
                await context.write(pb.FleetUpdate(cancel=pb.CancelCommand(request_id=request_id)))

    async def _ask(self, session: Session, context: Context, writing: asyncio.Lock) -> None:
        while True:
            question = to_wire(await session.questions.get(), decision_pb2.DecisionQuestion)
            async with writing:
                await context.write(pb.FleetUpdate(question=question))

    def _build_endpoints(self) -> pb.FleetUpdate:
        return pb.FleetUpdate(endpoints=to_wire(self._platform.snapshots.endpoints(), pb.EndpointSet))


async def _hello(reports: AsyncIterator[pb.RouterReport]) -> GatewayIdentity:
    async for wire in reports:
        identity = from_wire(readable(wire), RouterReport).identity
        if identity is not None and identity.id:
            return identity
        break
    raise InvalidRequest("the first report says who the router is", param="identity")
