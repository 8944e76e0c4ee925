"""What happened, in order; the newest ``KEEP`` of it."""

from __future__ import annotations

import dataclasses
from typing import Final

import sqlalchemy as sa

from control_plane.contracts.fleet import Event
from control_plane.store.database import Database
from control_plane.store.tables import events

KEEP: Final = 10_000
_PRUNE_EVERY: Final = 256


class EventLog:
    """Appends are one row each; every ``_PRUNE_EVERY``-th one also deletes what is over ``keep``.

    The numbers are the writer's, of which there is one at a time, so that an event has its number before it is stored.
    """

    def __init__(self, database: Database, keep: int = KEEP) -> None:
        self._database = database
        self._keep = keep
        self._appended = 0

    def append(self, event: Event) -> None:
        with self._database.transaction() as connection:
            connection.execute(events.insert().values(**dataclasses.asdict(event)))
            self._appended += 1
            if self._appended % _PRUNE_EVERY == 0:
                connection.execute(events.delete().where(events.c.seq <= event.seq - self._keep))

    def last(self) -> int:
        """The newest number that is stored; 0 where there is none."""
        with self._database.transaction() as connection:
            return connection.execute(sa.select(sa.func.max(events.c.seq))).scalar() or 0

    def since(self, seq: int, limit: int = KEEP) -> tuple[Event, ...]:
        """Events after a sequence number, oldest first; the newest ``limit`` of them."""
        query = sa.select(events).where(events.c.seq > seq).order_by(events.c.seq.desc()).limit(limit)
        with self._database.transaction() as connection:
            rows = connection.execute(query).all()
        return tuple(Event(**row._mapping) for row in reversed(rows))
