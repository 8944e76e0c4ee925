"""Who changed what: a row for every write of an operator, kept for ever."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa

from control_plane.contracts.access import Actor, AuditEntry
from control_plane.store.database import Database
from control_plane.store.tables import audit

SHOWN: Final = 200
MOST: Final = 10_000
_CHARACTERS: Final = {"actor_name": 200, "target": 400, "request_id": 160}


def write(
    connection: sa.Connection,
    actor: Actor,
    action: str,
    target: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> None:
    """Part of the transaction that makes the change: there is never one without the other."""
    row = {
        "at_unix": time.time(),
        "actor": actor.id,
        "actor_name": actor.name,
        "role": actor.role.name.lower(),
        "action": action,
        "target": target,
        "before": json.dumps(before, ensure_ascii=False),
        "after": json.dumps(after, ensure_ascii=False),
        "request_id": actor.request_id,
    }
    for column, most in _CHARACTERS.items():
        row[column] = str(row[column])[:most]
    connection.execute(audit.insert().values(**row))


class Audit:
    """Every method is one short transaction and may wait for the database: call it from a thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, actor: Actor, action: str, target: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """What was changed elsewhere than in the store."""
        with self._database.transaction() as connection:
            write(connection, actor, action, target, before, after)

    def newest(self, limit: int = 0) -> tuple[AuditEntry, ...]:
        """The newest so many (0: ``SHOWN``), oldest first."""
        query = sa.select(audit).order_by(audit.c.seq.desc()).limit(min(limit or SHOWN, MOST))
        with self._database.transaction() as connection:
            rows = connection.execute(query).all()
        return tuple(AuditEntry(**row._mapping) for row in reversed(rows))
