"""What operators asked of the fleet, kept over restarts: replicas by pool, and cordoned workers."""

from __future__ import annotations

import time
from collections.abc import Mapping

import sqlalchemy as sa

from control_plane.store.database import Database
from control_plane.store.tables import cordons, pool_replicas


class DesiredState:
    """Of one fleet: ``site`` tells it from others that share the database."""

    def __init__(self, database: Database, site: str = "") -> None:
        self._database = database
        self._site = site

    def replicas(self, configured: Mapping[str, int]) -> dict[str, int]:
        """Replicas by pool: the operators' number, or the file's where it was edited since they gave it."""
        result = dict(configured)
        with self._database.transaction() as connection:
            for row in connection.execute(sa.select(pool_replicas).where(pool_replicas.c.site == self._site)).all():
                if row.pool in configured and row.config_replicas == configured[row.pool]:
                    result[row.pool] = row.replicas
                else:
                    connection.execute(self._replicas_of(row.pool))
        return result

    def set_replicas(self, pool: str, replicas: int, configured: int) -> None:
        with self._database.transaction() as connection:
            connection.execute(self._replicas_of(pool))
            if replicas != configured:
                connection.execute(
                    pool_replicas.insert().values(
                        site=self._site,
                        pool=pool,
                        replicas=replicas,
                        config_replicas=configured,
                        set_unix=time.time(),
                    )
                )

    def cordoned(self) -> frozenset[str]:
        with self._database.transaction() as connection:
            query = sa.select(cordons.c.worker_id).where(cordons.c.site == self._site)
            return frozenset(connection.execute(query).scalars())

    def set_cordon(self, worker_id: str, cordoned: bool) -> None:
        with self._database.transaction() as connection:
            mine = (cordons.c.site == self._site, cordons.c.worker_id == worker_id)
            connection.execute(cordons.delete().where(*mine))
            if cordoned:
                values = {"site": self._site, "worker_id": worker_id, "set_unix": time.time()}
                connection.execute(cordons.insert().values(**values))

    def _replicas_of(self, pool: str) -> sa.Delete:
        return pool_replicas.delete().where(pool_replicas.c.site == self._site, pool_replicas.c.pool == pool)
