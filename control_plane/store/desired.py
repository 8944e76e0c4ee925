"""What operators asked of the fleet, kept over restarts: replicas by pool, and cordoned workers."""

from __future__ import annotations

import time
from collections.abc import Mapping

import sqlalchemy as sa

from control_plane.store.database import Database
from control_plane.store.tables import cordons, pool_replicas


class DesiredState:
    def __init__(self, database: Database) -> None:
        self._database = database

    def replicas(self, configured: Mapping[str, int]) -> dict[str, int]:
        """Replicas by pool: the operators' number, or the file's where it was edited since they gave it."""
        result = dict(configured)
        with self._database.transaction() as connection:
            for row in connection.execute(sa.select(pool_replicas)).all():
                if row.pool in configured and row.config_replicas == configured[row.pool]:
                    result[row.pool] = row.replicas
                else:
                    connection.execute(pool_replicas.delete().where(pool_replicas.c.pool == row.pool))
        return result

    def set_replicas(self, pool: str, replicas: int, configured: int) -> None:
        with self._database.transaction() as connection:
            connection.execute(pool_replicas.delete().where(pool_replicas.c.pool == pool))
            if replicas != configured:
                connection.execute(
                    pool_replicas.insert().values(
                        pool=pool, replicas=replicas, config_replicas=configured, set_unix=time.time()
                    )
                )

    def cordoned(self) -> frozenset[str]:
        with self._database.transaction() as connection:
            return frozenset(connection.execute(sa.select(cordons.c.worker_id)).scalars())

    def set_cordon(self, worker_id: str, cordoned: bool) -> None:
        with self._database.transaction() as connection:
            connection.execute(cordons.delete().where(cordons.c.worker_id == worker_id))
            if cordoned:
                connection.execute(cordons.insert().values(worker_id=worker_id, set_unix=time.time()))
