"""The three tiers as routers hear of them, with the default policy's words."""

from __future__ import annotations

from typing import Any

from control_plane.contracts.admission import Service
from control_plane.contracts.policy import DEFAULT_TIERS


def service(tier: str) -> Service:
    of = DEFAULT_TIERS[tier]
    return Service(tier, of.weight, of.at_busy, of.at_reject, of.min_share)


def call_of(tier: str) -> dict[str, Any]:
    """What a gateway says of a call of that tier."""
    return {"service": service(tier), "priority": -DEFAULT_TIERS[tier].priority}


ENTERPRISE, PAID, FREE = (call_of(tier) for tier in ("enterprise", "paid", "free"))
