"""Callers' keys, operators and the record of writes, as plain values.

Field names equal those of ``v1/access.proto``, which documents each of them; ``wire`` converts both ways.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from control_plane.contracts.policy import DEFAULT_TENANT, DEFAULT_TIER, NO_LIMITS, Limits, Policy


class Role(Enum):
    """What an operator is; a higher one may do all that a lower one may."""

    UNSPECIFIED = 0
    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True)
class KeySpec:
    """What is decided of a key. ``limits`` and ``models`` are the key's own, instead of its tier's; a limit of None and
    no models leave it to the tier."""

    name: str
    tenant: str = DEFAULT_TENANT
    tier: str = DEFAULT_TIER
    limits: Limits = NO_LIMITS
    models: tuple[str, ...] = ()
    expires_unix: float | None = None


@dataclass(frozen=True, slots=True)
class KeyView:
    id: str
    prefix: str
    spec: KeySpec
    created_unix: float
    revoked_unix: float | None = None
    rotated_unix: float | None = None
    old_until_unix: float | None = None
    old_ends_unix: tuple[float, ...] = ()

    def state(self, now_unix: float) -> str:
        """One of "active", "expired", "revoked"."""
        if self.revoked_unix is not None:
            return "revoked"
        expires = self.spec.expires_unix
        return "expired" if expires is not None and expires <= now_unix else "active"


@dataclass(frozen=True, slots=True)
class HomeKey:
    """What the key in the file of the platform's home is: see ``access.proto`` for ``state``."""

    key_id: str = ""
    state: str = ""
    until_unix: float | None = None

    def lost(self, now_unix: float) -> bool:
        """Whether a call with it is refused. What is not told, as by an older control plane, is not lost."""
        if self.state == "rotated":
            return self.until_unix is None or self.until_unix <= now_unix
        return self.state in ("expired", "revoked", "unknown", "missing")


@dataclass(frozen=True, slots=True)
class KeyList:
    keys: tuple[KeyView, ...] = ()
    taken_unix: float = 0.0
    home_key: HomeKey | None = None


@dataclass(frozen=True, slots=True)
class NewKey:
    """``key`` is the secret, to be given on and not kept; empty for a dry run."""

    view: KeyView
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class KeyChange:
    before: KeyView
    after: KeyView


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """``warnings``: what of it leads nowhere as things are."""

    before: Policy
    after: Policy
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    version: int
    at_unix: float
    by: str
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyVersions:
    versions: tuple[PolicyVersion, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorView:
    id: str
    name: str
    role: Role
    prefix: str
    created_unix: float
    revoked_unix: float | None = None

    @property
    def state(self) -> str:
        """ "active" or "revoked"."""
        return "active" if self.revoked_unix is None else "revoked"


@dataclass(frozen=True, slots=True)
class OperatorList:
    operators: tuple[OperatorView, ...] = ()
    taken_unix: float = 0.0


@dataclass(frozen=True, slots=True)
class NewOperator:
    view: OperatorView
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One write. ``before`` and ``after`` are JSON objects of what was changed; no key is ever in them."""

    seq: int
    at_unix: float
    actor: str
    actor_name: str
    role: str
    action: str
    target: str
    before: str = ""
    after: str = ""
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class AuditList:
    entries: tuple[AuditEntry, ...] = ()
    taken_unix: float = 0.0


@dataclass(frozen=True, slots=True)
class Actor:
    """Who makes a call of the operators' API, and which call it is."""

    id: str
    name: str
    role: Role
    request_id: str = ""
