"""The store on SQLite: migrations, keys, what operators asked for, events."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from control_plane.contracts.errors import Conflict, SettingsError, Unavailable
from control_plane.contracts.fleet import Event
from control_plane.contracts.grant import Grant
from control_plane.store import ApiKeys, Database, DesiredState, EventLog, KeyRecord
from control_plane.store.database import HEAD
from control_plane.store.tables import metadata


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deck.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    database = Database.open("", path)
    yield database
    database.close()


def test_migrations_build_exactly_the_tables_that_the_code_uses(database: Database) -> None:
    with database.transaction() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), metadata)
    assert differences == []


def test_head_is_the_newest_migration() -> None:
    folder = Path(__file__).parents[3] / "control_plane" / "store" / "migrations"
    assert ScriptDirectory(str(folder)).get_current_head() == HEAD


def test_opening_again_keeps_what_is_there(path: Path, database: Database) -> None:
    DesiredState(database).set_cordon("w-1", True)
    database.close()
    again = Database.open("", path)
    assert DesiredState(again).cordoned() == {"w-1"}
    again.close()


def test_the_file_is_in_wal_mode(path: Path, database: Database) -> None:
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_wrong_urls_are_settings_errors(path: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"store\.url cannot be used"):
        Database.open("nonsense://x", path)
    with pytest.raises(SettingsError, match="pg8000"):
        Database.open("postgresql+pg8000://me@127.0.0.1/x", path)
    with pytest.raises(Unavailable, match="unable to open"):
        Database.open("", tmp_path / "missing" / "x.db")


def test_the_tables_are_valid_for_postgresql() -> None:
    dialect = sa.create_mock_engine("postgresql://", lambda *_: None).dialect
    statements = [str(sa.schema.CreateTable(table).compile(dialect=dialect)) for table in metadata.sorted_tables]
    assert "seq BIGINT NOT NULL" in "".join(statements)


def test_a_key_is_found_until_it_is_revoked_and_stored_as_a_digest_only(path: Path, database: Database) -> None:
    keys = ApiKeys(database)
    key, record = keys.create("first", tenant="acme")
    assert key.startswith("sk-inferdeck-")
    assert len(key) == len("sk-inferdeck-") + 32
    assert keys.lookup(key) == record
    assert (record.name, record.tenant, record.prefix) == ("first", "acme", key[:17])
    assert keys.lookup(key + "x") is None
    assert keys.lookup("") is None
    assert keys.lookup("\udcff") is None
    assert keys.revoke(record.id)
    assert not keys.revoke(record.id)
    assert keys.lookup(key) is None
    assert [each.id for each in keys.all()] == [record.id]
    database.close()
    assert key.encode() not in path.read_bytes()


def granted(*records: KeyRecord) -> dict[bytes, Grant]:
    return {bytes.fromhex(record.sha256): Grant(record.id, record.tenant) for record in records}


def test_the_grants_are_the_same_object_until_one_is_made_or_revoked(path: Path, database: Database) -> None:
    other = Database.open("", path, migrate=False)
    mine, theirs = ApiKeys(database), ApiKeys(other)
    assert mine.grants() == {}
    first, second = theirs.create("a")[1], theirs.create("b", "acme")[1]
    found = mine.grants()
    assert found == granted(first, second)
    assert [grant.tenant for grant in found.values()] == ["default", "acme"]
    assert mine.grants() is found
    theirs.revoke(first.id)
    assert mine.grants() == granted(second)
    third = theirs.create("c")[1]
    assert mine.grants() == granted(second, third)
    other.close()


def test_adding_a_key_twice_keeps_one(database: Database) -> None:
    keys = ApiKeys(database)
    assert keys.add("sk-inferdeck-given", "a") == keys.add("sk-inferdeck-given", "b")
    assert [record.name for record in keys.all()] == ["a"]


def test_what_another_process_does_to_a_key_is_seen_at_once(path: Path, database: Database) -> None:
    other = Database.open("", path, migrate=False)
    mine, theirs = ApiKeys(database), ApiKeys(other)
    key, record = theirs.create("new")
    assert mine.lookup(key) == record
    theirs.revoke(record.id)
    assert mine.lookup(key) is None
    other.close()


def test_lookups_go_on_while_another_process_writes(path: Path, database: Database) -> None:
    keys = ApiKeys(database)
    key, record = keys.create("steady")
    writer = sqlite3.connect(path)
    writer.execute("BEGIN EXCLUSIVE")
    assert keys.lookup(key) == record
    assert keys.lookup("sk-inferdeck-unknown") is None
    assert keys.grants() == granted(record)
    writer.rollback()
    writer.close()


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


def test_a_database_of_a_newer_version_is_told_and_left_as_it_is(path: Path, database: Database) -> None:
    with database.transaction() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(Conflict, match="has version 9999") as caught:
        Database.open("", path)
    assert str(path) in caught.value.message
    assert caught.value.hint
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]
