"""What happened, in order; the newest ``KEEP`` of it."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from control_plane.contracts.fleet import Event
from control_plane.store.database import Database
from control_plane.store.tables import events

KEEP: Final = 10_000
_PRUNE_EVERY: Final = 256


class EventLog:
    """Appends are one row each; every ``_PRUNE_EVERY``-th one also deletes what is over ``keep``."""

    def __init__(self, database: Database, keep: int = KEEP) -> None:
        self._database = database
        self._keep = keep
        self._appended = 0

    def append(self, event: Event) -> Event:
        """Store an event; the one returned has its sequence number."""
        with self._database.transaction() as connection:
            result = connection.execute(
                events.insert().values(
                    at_unix=event.at_unix,
                    kind=event.kind,
                    subject=event.subject,
                    message=event.message,
                    severity=event.severity,
                )
            )
            assert result.inserted_primary_key is not None
            seq = int(result.inserted_primary_key[0])
            self._appended += 1
            if self._appended % _PRUNE_EVERY == 0:
                connection.execute(events.delete().where(events.c.seq <= seq - self._keep))
        return Event(seq, event.at_unix, event.kind, event.subject, event.message, event.severity)

    def since(self, seq: int, limit: int = KEEP) -> tuple[Event, ...]:
        """Events after a sequence number, oldest first; the newest ``limit`` of them."""
        query = sa.select(events).where(events.c.seq > seq).order_by(events.c.seq.desc()).limit(limit)
        with self._database.transaction() as connection:
            rows = connection.execute(query).all()
        return tuple(Event(**row._mapping) for row in reversed(rows))
