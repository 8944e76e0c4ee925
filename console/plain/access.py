"""Keys, operators and the audit as rows: their names, columns and data."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from typing import Any

from console import figures
from console.plain.data import plain
from console.plain.table import Column
from control_plane.contracts.access import AuditEntry, KeyView, OperatorView
from control_plane.contracts.policy import Limits


def date(unix: float | None) -> str:
    """A day and a time of it, here."""
    try:
        return figures.NONE if unix is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix))
    except (OverflowError, ValueError, OSError):  # no calendar goes so far
        return figures.NONE


def limits_of(limits: Limits) -> str:
    """Those there are: "60 rpm, 10,000 tpm"."""
    values = ((limits.rpm, "rpm"), (limits.tpm, "tpm"), (limits.concurrency, "at a time"))
    return ", ".join(f"{value:,} {unit}" for value, unit in values if value is not None) or figures.NONE


def ends(unix: float | None, now: float) -> str:
    """In how long, or how long ago."""
    if unix is None:
        return figures.NONE
    return f"in {figures.age(unix - now)}" if unix > now else f"{figures.age(now - unix)} ago"


def state_style(state: str) -> str | None:
    return {"active": "good", "expired": "watch", "revoked": "bad"}.get(state)


def key_columns(now: float) -> Sequence[Column[KeyView]]:
    return (
        Column("ID", lambda k: k.id, keep=9),
        Column("NAME", lambda k: k.spec.name, keep=7),
        Column("PREFIX", lambda k: k.prefix, keep=4),
        Column("TENANT", lambda k: k.spec.tenant, keep=6),
        Column("TIER", lambda k: k.spec.tier, keep=7),
        Column("OWN LIMITS", lambda k: limits_of(k.spec.limits), keep=6),
        Column("MODELS", lambda k: ", ".join(k.spec.models) or figures.NONE, keep=3),
        Column("STATE", lambda k: k.state(now), keep=8, style=lambda k: state_style(k.state(now))),
        Column("EXPIRES", lambda k: ends(k.spec.expires_unix, now), right=True, keep=4),
        Column("AGE", lambda k: figures.age(now - k.created_unix), right=True, keep=3),
        Column("ROTATED", lambda k: ends(k.rotated_unix, now), right=True, wide=True, keep=2),
        Column("OLD SECRET ENDS", lambda k: _old_ends(k, now), right=True, wide=True, keep=2),
        Column("REVOKED", lambda k: ends(k.revoked_unix, now), right=True, wide=True, keep=2),
    )


def _old_ends(key: KeyView, now: float) -> str:
    until = key.old_until_unix
    return ends(until, now) if until is not None and until > now else figures.NONE


def operator_columns(now: float) -> Sequence[Column[OperatorView]]:
    return (
        Column("ID", lambda o: o.id, keep=9),
        Column("NAME", lambda o: o.name, keep=8),
        Column("ROLE", lambda o: o.role.name.lower(), keep=7),
        Column("PREFIX", lambda o: o.prefix, keep=5),
        Column("STATE", lambda o: o.state, keep=6, style=lambda o: state_style(o.state)),
        Column("AGE", lambda o: figures.age(now - o.created_unix), right=True, keep=3),
        Column("REVOKED", lambda o: ends(o.revoked_unix, now), right=True, wide=True, keep=2),
    )


def audit_columns(_: float) -> Sequence[Column[AuditEntry]]:
    return (
        Column("SEQ", lambda e: str(e.seq), right=True, keep=5),
        Column("TIME", lambda e: date(e.at_unix), keep=8),
        Column("WHO", lambda e: e.actor_name, keep=9),
        Column("ROLE", lambda e: e.role, keep=4),
        Column("ACTION", lambda e: e.action, keep=8),
        Column("TARGET", lambda e: e.target, keep=7),
        Column("CHANGE", lambda e: "; ".join(changes_of(e)) or figures.NONE, keep=3),
        Column("OPERATOR", lambda e: e.actor, wide=True, keep=2),
        Column("REQUEST", lambda e: e.request_id, wide=True, keep=2),
    )


def changes_of(entry: AuditEntry) -> list[str]:
    """What is not the same before and after, by field: ``rpm: none → 60``."""
    before, after = (dict(_flat(_read(text))) for text in (entry.before, entry.after))
    paths = dict.fromkeys([*before, *after])
    pairs = ((path, before.get(path, "none"), after.get(path, "none")) for path in paths)
    return [f"{path}: {old} → {new}" for path, old, new in pairs if old != new]


def _read(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _flat(values: dict[str, Any], path: str = "") -> Any:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{path}{name}.")
        else:
            each = value if isinstance(value, list) else [value]
            words = [_when(part) if name.endswith("_unix") else str(part) for part in each]
            yield f"{path}{name}", "none" if value in (None, []) else ", ".join(words)


def _when(value: Any) -> str:
    return date(value) if isinstance(value, (int, float)) and math.isfinite(value) else str(value)


def key_data(key: KeyView, now: float) -> dict[str, Any]:
    spec = plain(key.spec)
    values: dict[str, Any] = {"id": key.id, "prefix": key.prefix, "state": key.state(now), **spec}
    times = ("created_unix", "revoked_unix", "rotated_unix", "old_until_unix")
    return values | {name: getattr(key, name) for name in times} | {"old_ends_unix": list(key.old_ends_unix)}


def operator_data(operator: OperatorView, _: float) -> dict[str, Any]:
    values: dict[str, Any] = plain(operator)
    return values | {"state": operator.state}


def audit_data(entry: AuditEntry, _: float) -> dict[str, Any]:
    values: dict[str, Any] = plain(entry)
    return values | {"before": _read(entry.before), "after": _read(entry.after)}
