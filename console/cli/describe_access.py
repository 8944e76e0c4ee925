"""A key, an operator or an entry of the audit in full, as labelled lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from console import figures
from console.plain.access import changes_of, date, ends, limits_of
from control_plane.contracts.access import AuditEntry, KeyView, OperatorView
from control_plane.contracts.fleet import Snapshot

Line = tuple[str, str]


def _key(key: KeyView, snapshot: Snapshot) -> Iterator[Line]:
    now, spec = snapshot.taken_unix, key.spec
    yield "key", key.id
    yield "name", spec.name
    yield "state", key.state(now)
    yield "secret", f"{key.prefix}…"
    yield "tenant", spec.tenant
    yield "tier", spec.tier
    yield "own limits", limits_of(spec.limits)
    yield "models", ", ".join(spec.models) or "those of its tier"
    yield "created", date(key.created_unix)
    if spec.expires_unix is not None:
        yield "expires", f"{date(spec.expires_unix)} ({ends(spec.expires_unix, now)})"
    if key.rotated_unix is not None:
        yield "rotated", f"{date(key.rotated_unix)} ({ends(key.rotated_unix, now)})"
    for end in key.old_ends_unix:
        yield "old secret", f"good until {date(end)} ({ends(end, now)})"
    if key.revoked_unix is not None:
        yield "revoked", f"{date(key.revoked_unix)} ({ends(key.revoked_unix, now)})"


def _operator(operator: OperatorView, snapshot: Snapshot) -> Iterator[Line]:
    yield "operator", operator.id
    yield "name", operator.name
    yield "role", operator.role.name.lower()
    yield "state", operator.state
    yield "secret", f"{operator.prefix}…"
    yield "created", date(operator.created_unix)
    if operator.revoked_unix is not None:
        yield "revoked", f"{date(operator.revoked_unix)} ({ends(operator.revoked_unix, snapshot.taken_unix)})"


def _audit(entry: AuditEntry, _: Snapshot) -> Iterator[Line]:
    yield "entry", str(entry.seq)
    yield "time", date(entry.at_unix)
    yield "who", f"{entry.actor_name} ({entry.actor}), {entry.role}"
    yield "action", entry.action
    yield "target", entry.target
    yield "request", entry.request_id or figures.NONE
    for change in changes_of(entry):
        yield "change", change


ACCESS_TELLERS: Final[dict[str, Callable[[Any, Snapshot], Iterator[Line]]]] = {
    "keys": _key,
    "operators": _operator,
    "audit": _audit,
}
