"""What the operators' API tells of the routers' decisions, from the outside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Final

import grpc

from control_plane.contracts.decision import DecisionList, DecisionReplay, DecisionView, Explanation
from control_plane.contracts.routing import RoutingProfile
from control_plane.contracts.v1 import decision_pb2 as pb
from control_plane.contracts.v1 import routing_pb2
from control_plane.contracts.v1.operator_pb2_grpc import OperatorStub
from control_plane.contracts.wire.convert import from_wire, to_wire

Unary = Callable[[Any, Any], Awaitable[Any]]

EVERY_S: Final = 1.0
"""How often new decisions are asked for."""


class DecisionClient:
    """Part of an ``OperatorClient``, on its connection: ``unary`` makes a call there and tells what went wrong."""

    def __init__(self, channel: grpc.aio.Channel, unary: Unary) -> None:
        stub: Any = OperatorStub
        self._stub = stub(channel)
        self._unary = unary

    async def explain(self, request_id: str) -> Explanation:
        """Why the request went where it went. Raises NotFound for one that is unknown, or not kept any more."""
        request = pb.ExplainRequest(request_id=request_id)
        return from_wire(await self._unary(self._stub.Explain, request), Explanation)

    async def newest(self, last: int = 0, after: Mapping[str, int] | None = None) -> DecisionList:
        """The last ones of each router (0: the server's default), with the best few candidates. ``after``: by router,
        the number of the last one that is known."""
        request = pb.ListDecisionsRequest(last=last, after=after or {})
        return from_wire(await self._unary(self._stub.ListDecisions, request), DecisionList)

    async def replay(self, *, profile: str = "", by: RoutingProfile | None = None, last: int = 0) -> DecisionReplay:
        """What the last decisions (0: all that are kept) would have been under a profile, by its name or as it is."""
        request = pb.ReplayDecisionsRequest(profile=profile, last=last)
        if by is not None:
            request.by.CopyFrom(to_wire(by, routing_pb2.RoutingProfile))
        return from_wire(await self._unary(self._stub.ReplayDecisions, request), DecisionReplay)

    async def follow(self, every_s: float = EVERY_S) -> AsyncGenerator[tuple[DecisionView, ...], None]:
        """The last ones, then the new ones, as often as that, without end; oldest first, empty where there are none."""
        after: dict[str, int] = {}
        while True:
            told = await self.newest(after=after)
            # What a router counts anew after a restart is less than what was known, and is what counts now.
            after |= {each.router_id: each.number for each in sorted(told.decisions, key=lambda each: each.number)}
            yield told.decisions
            await asyncio.sleep(every_s)
