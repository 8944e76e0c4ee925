"""What operators ask about decisions, from the wire to the fleet and back."""

from __future__ import annotations

from typing import Any

from control_plane.api.routing_feed import RoutingFeed
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.profile_document import profile_of
from control_plane.contracts.routing import RoutingProfile
from control_plane.contracts.v1 import decision_pb2 as pb
from control_plane.contracts.v1 import routing_pb2
from control_plane.contracts.wire.convert import to_wire
from control_plane.fleet.decisions import Decisions


class DecisionDesk:
    def __init__(self, decisions: Decisions, routing: RoutingFeed) -> None:
        self._decisions = decisions
        self._routing = routing

    async def explain(self, request: pb.ExplainRequest) -> pb.Explanation:
        if not request.request_id:
            raise InvalidRequest("request_id: which request?", param="request_id")
        return to_wire(await self._decisions.explain(request.request_id), pb.Explanation)

    async def newest(self, request: pb.ListDecisionsRequest) -> pb.DecisionList:
        return to_wire(await self._decisions.newest(request.last, dict(request.after)), pb.DecisionList)

    async def again(self, request: pb.ReplayDecisionsRequest) -> pb.DecisionReplay:
        name, by = self._wanted(request)
        return to_wire(await self._decisions.again(name, by, request.last), pb.DecisionReplay)

    def _wanted(self, request: pb.ReplayDecisionsRequest) -> tuple[str, RoutingProfile]:
        """Raises InvalidRequest for a profile that there is not, or that could not be one."""
        if request.HasField("by") == bool(request.profile):
            raise InvalidRequest("profile: either a profile's name or weights are needed", param="profile")
        if request.HasField("by"):
            return "", _checked(request.by)
        routing = self._routing.current
        found = routing.named(request.profile)
        if found is None:
            raise InvalidRequest(
                f"profile: {request.profile!r} is no profile; there are {', '.join(routing.names)}",
                param="profile",
                hint="inferdeck policy get",
            )
        return request.profile, found


def _checked(wire: routing_pb2.RoutingProfile) -> RoutingProfile:
    document: dict[str, Any] = {"weights": dict(wire.weights), "picker": wire.picker or "max"}
    if wire.temperature:
        document["temperature"] = wire.temperature
    return profile_of(document, "by")
