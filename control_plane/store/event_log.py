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

    The numbers are the writer's, of which there is one at a time on a ``site``, so that an event has its number before
    it is stored.
    """

    def __init__(self, database: Database, keep: int = KEEP, site: str = "") -> None:
        self._database = database
        self._site = site
        self._keep = keep
        self._appended = 0

    def append(self, event: Event) -> None:
        with self._database.transaction() as connection:
            connection.execute(events.insert().values(site=self._site, **dataclasses.asdict(event)))
            self._appended += 1
            if self._appended % _PRUNE_EVERY == 0:
                old = (events.c.site == self._site, events.c.seq <= event.seq - self._keep)
                connection.execute(events.delete().where(*old))

    def last(self) -> int:
        """The newest number that is stored; 0 where there is none."""
        with self._database.transaction() as connection:
            return (
                connection.execute(sa.select(sa.func.max(events.c.seq)).where(events.c.site == self._site)).scalar()
                or 0
            )

    def since(self, seq: int, limit: int = KEEP) -> tuple[Event, ...]:
        """Events after a sequence number, oldest first; the newest ``limit`` of them."""
        columns = [column for column in events.c if column is not events.c.site]
        mine = sa.select(*columns).where(events.c.site == self._site, events.c.seq > seq)
        query = mine.order_by(events.c.seq.desc()).limit(limit)
        with self._database.transaction() as connection:
            rows = connection.execute(query).all()
        return tuple(Event(**row._mapping) for row in reversed(rows))
