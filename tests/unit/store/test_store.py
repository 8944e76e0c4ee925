"""The store: migrations, what operators asked for, events; and SQLite's own ways."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from control_plane.contracts.errors import Conflict, SettingsError, Unavailable
from control_plane.contracts.fleet import Event
from control_plane.store import ApiKeys, Database, DesiredState, EventLog
from control_plane.store.database import HEAD
from control_plane.store.tables import metadata
from tests.unit.store.conftest import Open


def test_migrations_build_exactly_the_tables_that_the_code_uses(database: Database) -> None:
    with database.transaction() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), metadata)
    assert differences == []


def test_head_is_the_newest_migration() -> None:
    folder = Path(__file__).parents[3] / "control_plane" / "store" / "migrations"
    assert ScriptDirectory(str(folder)).get_current_head() == HEAD


def test_opening_again_keeps_what_is_there(open_store: Open, database: Database) -> None:
    DesiredState(database).set_cordon("w-1", True)
    database.close()
    assert DesiredState(open_store()).cordoned() == {"w-1"}


def test_of_many_that_open_a_new_database_at_once_one_makes_the_tables(open_store: Open) -> None:
    with ThreadPoolExecutor(6) as threads:
        databases = [opening.result() for opening in [threads.submit(open_store) for _ in range(6)]]
    for database in databases:
        assert DesiredState(database).cordoned() == frozenset()


def test_what_the_first_version_stored_is_there_after_the_migration_and_back(
    database: Database, open_store: Open
) -> None:
    with database.transaction() as connection:
        migrate(connection, "0001")
        connection.execute(
            sa.text(
                "INSERT INTO api_keys (id, name, sha256, prefix, tenant, created_unix) "
                "VALUES ('key-1', 'default', 'ab', 'sk-inferdeck-abcd', 'default', 1.0)"
            )
        )
        connection.execute(sa.text("INSERT INTO cordons VALUES ('w-1', 1.0)"))
        connection.execute(sa.text("INSERT INTO pool_replicas VALUES ('a', 5, 2, 1.0)"))
        connection.execute(sa.text("INSERT INTO events VALUES (7, 1.0, 'kind', 'worker/w', 'words', 'info')"))
    again = open_store()
    [key] = ApiKeys(again).all()
    assert (key.id, key.spec.tier, key.spec.limits.rpm, key.spec.models) == ("key-1", "enterprise", None, ())
    assert DesiredState(again).cordoned() == {"w-1"}
    assert DesiredState(again).replicas({"a": 2}) == {"a": 5}
    assert EventLog(again).since(0) == (Event(7, 1.0, "kind", "worker/w", "words", "info"),)
    with again.transaction() as connection:
        migrate(connection, "0001")
        assert connection.execute(sa.text("SELECT worker_id FROM cordons")).scalars().all() == ["w-1"]
        assert connection.execute(sa.text("SELECT sha256 FROM api_keys")).scalars().all() == ["ab"]


def migrate(connection: sa.Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", "control_plane.store:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.downgrade(config, revision)


def test_two_fleets_on_one_database_do_not_know_each_others_wishes(database: Database) -> None:
    mine, theirs = DesiredState(database, "a"), DesiredState(database, "b")
    mine.set_cordon("w-1", True)
    mine.set_replicas("pool", 5, configured=2)
    assert theirs.cordoned() == frozenset()
    assert theirs.replicas({"other": 1}) == {"other": 1}
    theirs.set_cordon("w-1", False)
    assert mine.cordoned() == {"w-1"}
    assert mine.replicas({"pool": 2}) == {"pool": 5}
    event = Event(1, 1.0, "kind", "worker/w", "words")
    for log in (EventLog(database, site="a"), EventLog(database, site="b")):
        assert log.last() == 0
        log.append(event)
        assert log.since(0) == (event,)


def test_the_file_is_in_wal_mode(path: Path) -> None:
    Database.open("", path).close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_wrong_urls_are_settings_errors(path: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"store\.url cannot be used"):
        Database.open("nonsense://x", path)
    with pytest.raises(SettingsError, match="pg8000"):
        Database.open("postgresql+pg8000://me@127.0.0.1/x", path)
    with pytest.raises(Unavailable, match="unable to open"):
        Database.open("", tmp_path / "missing" / "x.db")


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg"])
def test_a_postgresql_that_does_not_answer_is_told_without_its_password(path: Path, scheme: str) -> None:
    """SE05: the password of the database is in no error."""
    with pytest.raises(Unavailable, match="does not answer") as caught:
        Database.open(f"{scheme}://ann:SENTINEL4@127.0.0.1:1/deck", path)
    assert "SENTINEL4" not in caught.value.message + caught.value.hint


def test_replicas_given_by_operators_hold_until_the_file_is_edited(database: Database) -> None:
    desired = DesiredState(database)
    assert desired.replicas({"a": 2, "b": 1}) == {"a": 2, "b": 1}
    desired.set_replicas("a", 5, configured=2)
    assert desired.replicas({"a": 2, "b": 1}) == {"a": 5, "b": 1}
    assert desired.replicas({"a": 3, "b": 1}) == {"a": 3, "b": 1}
    assert desired.replicas({"a": 2, "b": 1}) == {"a": 2, "b": 1}


def test_asking_for_what_the_file_says_forgets_the_override(database: Database) -> None:
    desired = DesiredState(database)
    desired.set_replicas("a", 5, configured=2)
    desired.set_replicas("a", 2, configured=2)
    assert desired.replicas({"a": 2}) == {"a": 2}
    with database.transaction() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM pool_replicas")).scalar() == 0


def test_cordons_come_and_go(database: Database) -> None:
    desired = DesiredState(database)
    desired.set_cordon("w-1", True)
    desired.set_cordon("w-1", True)
    desired.set_cordon("w-2", True)
    assert desired.cordoned() == {"w-1", "w-2"}
    desired.set_cordon("w-1", False)
    assert desired.cordoned() == {"w-2"}


def test_events_are_kept_in_order_and_bounded(database: Database) -> None:
    log = EventLog(database, keep=50)
    assert log.last() == 0
    for number in range(1, 601):
        log.append(Event(number, float(number), "kind", "worker/w", f"message {number}"))
    assert log.last() == 600
    kept = log.since(0)
    assert len(kept) < 50 + 256
    assert kept[-1] == Event(600, 600.0, "kind", "worker/w", "message 600", "info")
    assert [event.seq for event in log.since(598)] == [599, 600]
    assert [event.seq for event in log.since(0, limit=2)] == [599, 600]


@pytest.mark.parametrize("migrate", [True, False])
def test_a_file_that_is_no_database_is_told_by_its_name(path: Path, migrate: bool) -> None:
    path.write_text("this is a text, and a long one at that\n" * 100)
    with pytest.raises(Conflict, match="file is not a database") as caught:
        Database.open("", path, migrate=migrate)
    assert str(path) in caught.value.message
    assert caught.value.hint


def test_a_database_of_a_newer_version_is_told_and_left_as_it_is(database: Database, open_store: Open) -> None:
    with database.transaction() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Conflict, match="has version 9999") as caught:
        open_store()
    assert caught.value.hint
    with database.transaction() as connection:
        assert connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalars().all() == ["9999"]


def test_what_was_to_be_stored_is_in_no_error(database: Database) -> None:
    """SE05: an error of the database goes into logs."""
    with pytest.raises(sa.exc.DBAPIError) as caught, database.transaction() as connection:
        connection.execute(sa.text("INSERT INTO nowhere VALUES (:secret)"), {"secret": "SENTINEL1"})
    assert "SENTINEL1" not in str(caught.value)
