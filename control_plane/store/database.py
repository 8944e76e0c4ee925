"""One database behind one URL: SQLite in the home, or PostgreSQL."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, OperationalError, ProgrammingError

from control_plane.contracts.errors import Conflict, SettingsError, Unavailable

HEAD: Final = "0004"
"""The newest migration in ``migrations/versions``."""

BUSY_TIMEOUT_S: Final = 5.0

_CONNECT_TIMEOUT_S: Final = 5
_MIGRATION_LOCK: Final = 0x1DFE_12DE_C4
"""Of PostgreSQL's advisory locks the one that whoever migrates has."""


class Database:
    """Connections to the store. Every method of the rooms above is one short transaction on a thread of the caller.

    SQLite runs in WAL mode: readers never wait for the writer, a writer waits at most ``BUSY_TIMEOUT_S`` seconds. Any
    number of control planes and gateways may share one database.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @classmethod
    def open(cls, url: str, default: Path, *, migrate: bool = True, durable: bool = False) -> Self:
        """Connect to ``url`` (empty: SQLite in the file ``default``) and bring the tables up to date. ``durable``: what
        is committed outlives the machine's death on SQLite too, at the price of a sync each time.

        Raises SettingsError for an URL that cannot be used, Unavailable when the database does not answer, Conflict for
        one that a newer version made, or that is no database.
        """
        try:
            engine = _engine(url or f"sqlite:///{default}")
        except (ArgumentError, NoSuchModuleError) as error:
            raise SettingsError(f"store.url cannot be used: {error}", param="store.url") from None
        except ModuleNotFoundError as error:
            raise SettingsError(
                f"store.url needs the Python package {error.name}, which is not installed",
                param="store.url",
                hint="pip install 'psycopg[binary]'" if error.name == "psycopg" else f"pip install {error.name}",
            ) from None
        if engine.dialect.name == "sqlite":
            sa.event.listen(engine, "connect", _prepare_sqlite)
            if durable:
                sa.event.listen(engine, "connect", _sync_sqlite)
        database = cls(engine)
        try:
            database._prepare(migrate=migrate)
        except BaseException:
            engine.dispose()
            raise
        return database

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        with self._engine.begin() as connection:
            yield connection

    def close(self) -> None:
        self._engine.dispose()

    def _prepare(self, *, migrate: bool) -> None:
        where = self._engine.url.render_as_string(hide_password=True)
        try:
            version = self._version()
            if migrate and version != HEAD:
                self._migrate(version, where)
        except OperationalError as error:
            raise Unavailable(f"the store {where} does not answer: {error.orig}", hint="check [store] url") from None
        except DatabaseError as error:
            raise Conflict(
                f"the store {where} cannot be used: {error.orig}",
                hint="move that file away, or set [store] url to another one",
            ) from None

    def _migrate(self, version: str | None, where: str) -> None:
        # Imported here: alembic costs a third of a second, and only a new store or a new version needs it.
        logging.getLogger("alembic").setLevel(logging.WARNING)
        from alembic import command
        from alembic.config import Config
        from alembic.util import CommandError

        config = Config()
        config.set_main_option("script_location", "control_plane.store:migrations")
        config.set_main_option("path_separator", "os")
        try:
            with self._engine.begin() as connection:
                # Of several that start at once one migrates, and the others find it done.
                if self._engine.dialect.name == "sqlite":
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                elif self._engine.dialect.name == "postgresql":
                    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
        except CommandError as error:
            raise Conflict(
                f"the store {where} has version {version}, which this InferDeck ({HEAD}) does not know: {error}",
                hint="run the version of InferDeck that made it, or set [store] url to another one",
            ) from None

    def _version(self) -> str | None:
        try:
            with self._engine.connect() as connection:
                return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
        except ProgrammingError:
            return None
        except OperationalError as error:
            if "no such table" in str(error.orig):
                return None
            raise


def _engine(url: str) -> sa.Engine:
    parsed = sa.make_url(url)
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    options: dict[str, Any] = {}
    if parsed.drivername == "postgresql+psycopg":
        options["connect_args"] = {"connect_timeout": _CONNECT_TIMEOUT_S, "keepalives_idle": 10}
    # What is stored is in no error, and so in no log.
    sqlite = parsed.get_backend_name() == "sqlite"
    return sa.create_engine(parsed, pool_pre_ping=not sqlite, hide_parameters=True, **options)


def _prepare_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT_S * 1000)}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _sync_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous = FULL")
    # What is deleted is overwritten.
    cursor.execute("PRAGMA secure_delete = ON")
    cursor.close()
