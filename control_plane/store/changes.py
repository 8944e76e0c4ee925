"""One counter of all changes of keys, operators and policies: who has read at this count has read the newest.

Writers count first. That takes the row (PostgreSQL) or the database (SQLite) until they commit, so writers follow each
other, and what one has checked still holds when it writes.
"""

from __future__ import annotations

import sqlalchemy as sa

from control_plane.store.tables import access_changes


def count_change(connection: sa.Connection) -> None:
    """The first thing that a transaction does which changes something."""
    connection.execute(access_changes.update().values(count=access_changes.c.count + 1))


def changes(connection: sa.Connection) -> int:
    return int(connection.execute(sa.select(access_changes.c.count)).scalar_one())
