"""Each test of the store runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from control_plane.contracts.access import Actor, Role
from control_plane.store import Database
from tests.postgres import Postgres

Open = Callable[[], Database]

ADMIN = Actor("op-1", "ann", Role.ADMIN, "req-1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of the SQLite file."""
    return tmp_path / "deck.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """ "" is SQLite at ``path``."""
    if request.param == "sqlite":
        return ""
    postgres: Postgres = request.getfixturevalue("postgres")
    return postgres.new_database()


@pytest.fixture
def open_store(store_url: str, path: Path) -> Iterator[Open]:
    """One more connection to the test's database, as another process would have it."""
    opened: list[Database] = []

    def open_one() -> Database:
        opened.append(Database.open(store_url, path))
        return opened[-1]

    yield open_one
    for database in opened:
        database.close()


@pytest.fixture
def database(open_store: Open) -> Database:
    return open_store()
