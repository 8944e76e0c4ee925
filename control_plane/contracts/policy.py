"""What callers may do, as operators decide it: tiers, tenants' limits, and what holds when limits cannot be shared.

One document with a version; it changes while everything runs. None is no bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from control_plane.contracts.admission import AtBusy, AtReject
from control_plane.contracts.keeping import Keeping
from control_plane.contracts.routing import Routing

StoreDown = Literal["open", "closed"]

DEFAULT_TENANT = "default"
DEFAULT_TIER = "paid"


@dataclass(frozen=True, slots=True)
class Limits:
    """Requests and tokens over a rolling minute, and calls at one time."""

    rpm: int | None = None
    tpm: int | None = None
    concurrency: int | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Tier:
    """``priority``: higher is served first. ``weight``: the share of the tokens among tiers of the same priority; in a
    tier, tenants share alike. ``limits`` hold for each key that has none of its own. ``at_busy``, ``at_reject`` and
    ``min_share`` are what its calls may expect when workers are busy: see ``contracts.admission``.
    ``default_max_tokens`` is what a call without ``max_tokens`` reserves of its TPM, at most what its context leaves;
    ``queue_deadline_s`` how long a call may wait for a worker. ``models``: names that may be called; empty is all."""

    priority: int = 0
    weight: int = 1
    limits: Limits = NO_LIMITS
    default_max_tokens: int = 1024
    queue_deadline_s: float = 30.0
    models: tuple[str, ...] = ()
    at_busy: AtBusy = "queue"
    at_reject: AtReject = "queue"
    min_share: float = 0.0


DEFAULT_TIERS: Mapping[str, Tier] = MappingProxyType(
    {
        "enterprise": Tier(priority=10, weight=8, queue_deadline_s=60.0, at_busy="dispatch"),
        "paid": Tier(priority=0, weight=4, limits=Limits(rpm=600, tpm=200_000), min_share=0.1),
        "free": Tier(
            priority=-10,
            limits=Limits(rpm=20, tpm=20_000, concurrency=4),
            queue_deadline_s=5.0,
            at_busy="throttle",
            at_reject="refuse",
            min_share=0.05,
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Policy:
    """``tenants`` are the limits of all keys of a tenant together. ``limit_store_down``: whether calls are taken, under
    local limits, while the store that several gateways share their limits in does not answer.
    ``routing``: how routers choose. ``keeping``: how much tenants may store."""

    version: int = 0
    tiers: Mapping[str, Tier] = field(default_factory=lambda: DEFAULT_TIERS)
    tenants: Mapping[str, Limits] = field(default_factory=dict)
    limit_store_down: StoreDown = "open"
    routing: Routing = field(default_factory=Routing)
    keeping: Keeping = field(default_factory=Keeping)
