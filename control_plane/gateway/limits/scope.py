"""What limits are on: a key, and all keys of a tenant together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import NO_LIMITS, Limits


@dataclass(frozen=True, slots=True)
class Scope:
    """``name`` is unique among all scopes; those of one ``tenant`` are always asked together. ``gateways``: of so many
    equal parts, the limits are one."""

    kind: Literal["key", "tenant"]
    name: str
    tenant: str
    limits: Limits
    gateways: int = 1


def scopes_of(grant: Grant) -> tuple[Scope, ...]:
    """Those that have any limit, the key's first."""
    scopes = []
    if grant.limits != NO_LIMITS:
        scopes.append(Scope("key", f"k:{grant.key_id}", grant.tenant, grant.limits))
    if grant.tenant_limits != NO_LIMITS:
        scopes.append(Scope("tenant", f"t:{grant.tenant}", grant.tenant, grant.tenant_limits))
    return tuple(scopes)


@lru_cache(10_000)
def shares_of(scopes: tuple[Scope, ...], gateways: int) -> tuple[Scope, ...]:
    """The part of each limit that one of so many gateways grants by itself, rounded up: together they grant fewer than
    one more for each of them."""
    if gateways <= 1:
        return scopes
    return tuple(replace(scope, limits=_share(scope.limits, gateways), gateways=gateways) for scope in scopes)


def _share(limits: Limits, gateways: int) -> Limits:
    parts = (None if bound is None else -(-bound // gateways) for bound in (limits.rpm, limits.tpm, limits.concurrency))
    return Limits(*parts)
