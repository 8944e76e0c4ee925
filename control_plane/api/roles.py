"""What each role may do: the one table. A higher role may do what a lower one may."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from control_plane.contracts.access import Role

_V, _O, _A = Role.VIEWER, Role.OPERATOR, Role.ADMIN

NEEDED: Final[Mapping[str, Role]] = MappingProxyType(
    {
        # Look.
        "/inferdeck.v1.Operator/GetSnapshot": _V,
        "/inferdeck.v1.Operator/Watch": _V,
        "/inferdeck.v1.Operator/Logs": _V,
        "/inferdeck.v1.Operator/Events": _V,
        "/inferdeck.v1.Operator/WatchSteps": _V,
        "/inferdeck.v1.Operator/GetBlocks": _V,
        "/inferdeck.v1.Operator/GetRouter": _V,
        "/inferdeck.v1.Operator/GetTimeline": _V,
        "/inferdeck.v1.Operator/Explain": _V,
        "/inferdeck.v1.Operator/ListDecisions": _V,
        "/inferdeck.v1.Operator/ReplayDecisions": _V,
        # Both also only tell; what changes something asks for more (api/server.py).
        "/inferdeck.v1.Operator/SetTrace": _V,
        "/inferdeck.v1.Operator/Inject": _V,
        "/inferdeck.v1.Access/ListKeys": _V,
        "/inferdeck.v1.History/ListConversations": _V,
        "/inferdeck.v1.History/GetConversation": _V,
        "/inferdeck.v1.Access/GetPolicy": _V,
        "/inferdeck.v1.Access/ListPolicies": _V,
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": _V,
        # Operate what runs.
        "/inferdeck.v1.Operator/Cordon": _O,
        "/inferdeck.v1.Operator/Uncordon": _O,
        "/inferdeck.v1.Operator/Drain": _O,
        "/inferdeck.v1.Operator/Scale": _O,
        "/inferdeck.v1.Operator/Sleep": _O,
        "/inferdeck.v1.Operator/Wake": _O,
        "/inferdeck.v1.Operator/CancelRequest": _O,
        # Decide who may do what, and end it all.
        "/inferdeck.v1.Operator/Shutdown": _A,
        "/inferdeck.v1.Access/CreateKey": _A,
        "/inferdeck.v1.Access/SetKey": _A,
        "/inferdeck.v1.Access/RotateKey": _A,
        "/inferdeck.v1.Access/RevokeKey": _A,
        "/inferdeck.v1.Access/SetPolicy": _A,
        "/inferdeck.v1.Access/ListOperators": _A,
        "/inferdeck.v1.Access/CreateOperator": _A,
        "/inferdeck.v1.Access/RevokeOperator": _A,
        "/inferdeck.v1.Access/ListAudit": _A,
        # What callers and models said.
        "/inferdeck.v1.History/ReadConversation": _A,
        # A router hears of every worker and tells of every request: gateways join with the home's own key.
        "/inferdeck.v1.Fleet/Join": _A,
    }
)


def needed(method: str) -> Role:
    """The lowest role that may call this; admin where the table does not know it."""
    return NEEDED.get(method, Role.ADMIN)


def allows(role: Role, method: str) -> bool:
    return role.value >= needed(method).value
