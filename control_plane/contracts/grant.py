"""What one valid key may do: its own record under the policy that is in force."""

from __future__ import annotations

from dataclasses import dataclass

from control_plane.contracts.admission import AtBusy, AtReject, Service
from control_plane.contracts.keeping import MOST_CONVERSATIONS
from control_plane.contracts.policy import DEFAULT_TENANT, DEFAULT_TIER, NO_LIMITS, Limits, StoreDown


@dataclass(frozen=True, slots=True)
class Grant:
    """``limits`` are the key's, or its tier's where it has none of its own; ``tenant_limits`` those of all keys of the
    tenant together. ``models`` are names that may be called, empty is all; ``conversations`` is how many the tenant may
    have. The rest is as in ``policy.Tier``."""

    key_id: str
    tenant: str = DEFAULT_TENANT
    tier: str = DEFAULT_TIER
    priority: int = 0
    weight: int = 1
    limits: Limits = NO_LIMITS
    tenant_limits: Limits = NO_LIMITS
    default_max_tokens: int = 1024
    queue_deadline_s: float = 30.0
    models: tuple[str, ...] = ()
    expires_unix: float | None = None
    limit_store_down: StoreDown = "open"
    conversations: int = MOST_CONVERSATIONS
    at_busy: AtBusy = "queue"
    at_reject: AtReject = "queue"
    min_share: float = 0.0

    def allows(self, model: str) -> bool:
        """Whether this model may be called and seen."""
        return not self.models or model in self.models

    @property
    def service(self) -> Service:
        """What a router hears of the tier."""
        return Service(self.tier, self.weight, self.at_busy, self.at_reject, self.min_share)
