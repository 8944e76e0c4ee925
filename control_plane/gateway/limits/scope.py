"""What limits are on: a key, and all keys of a tenant together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import NO_LIMITS, Limits


@dataclass(frozen=True, slots=True)
class Scope:
    """``name`` is unique among all scopes; those of one ``tenant`` are always asked together."""

    kind: Literal["key", "tenant"]
    name: str
    tenant: str
    limits: Limits


def scopes_of(grant: Grant) -> tuple[Scope, ...]:
    """Those that have any limit, the key's first."""
    scopes = []
    if grant.limits != NO_LIMITS:
        scopes.append(Scope("key", f"k:{grant.key_id}", grant.tenant, grant.limits))
    if grant.tenant_limits != NO_LIMITS:
        scopes.append(Scope("tenant", f"t:{grant.tenant}", grant.tenant, grant.tenant_limits))
    return tuple(scopes)
