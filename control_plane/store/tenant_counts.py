"""How many conversations each tenant has: counted as they come and go, so that nobody has to count them.

Who makes one counts first: on PostgreSQL that locks the tenant's row, on SQLite the file, so that no two of them take
the last place.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, String, Table
from sqlalchemy.dialects import postgresql, sqlite

from control_plane.contracts.errors import InvalidRequest
from control_plane.store.tables import metadata

tenant_counts: Final = Table(
    "tenant_counts",
    metadata,
    Column("tenant", String(200), primary_key=True),
    Column("conversations", BigInteger, nullable=False),
)

_of = tenant_counts.c


def count_one_more(connection: sa.Connection, tenant: str, most: int) -> None:
    """Raises InvalidRequest where the tenant has as many as it may have."""
    made = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    counted = (
        made(tenant_counts)
        .values(tenant=tenant, conversations=1)
        .on_conflict_do_update(
            index_elements=[_of.tenant],
            set_={"conversations": _of.conversations + 1},
            where=_of.conversations < most,
        )
        .returning(_of.conversations)
    )
    if connection.execute(counted).one_or_none() is None:
        raise InvalidRequest(
            f"This tenant has {most} conversations or more, which is as many as it may keep. Delete some: "
            "GET /v1/conversations?order=asc lists the oldest first, DELETE /v1/conversations/{id} deletes one.",
            code="too_many_conversations",
        )


def count_one_less(connection: sa.Connection, tenant: str) -> None:
    connection.execute(
        tenant_counts.update()
        .where(_of.tenant == tenant, _of.conversations > 0)
        .values(conversations=_of.conversations - 1)
    )
