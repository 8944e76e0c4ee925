"""What the database is at fault for: the same to those who try again and to those who tell it."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from control_plane.api.answering import told
from control_plane.contracts.errors import InternalError, StoreFull, Unavailable
from control_plane.store import Database
from control_plane.store.outage import is_full, is_outage
from control_plane.store.patience import Patience

ORIGIN = Exception("said by the driver")

PASSING = [
    OperationalError("SELECT", {}, ORIGIN),
    InterfaceError("SELECT", {}, ORIGIN),
    PoolTimeout("no connection is free"),
    DBAPIError("SELECT", {}, ORIGIN, connection_invalidated=True),
]
LASTING = [
    DBAPIError("SELECT", {}, ORIGIN),
    IntegrityError("INSERT", {}, ORIGIN),
    ProgrammingError("SELECT", {}, ORIGIN),
    ValueError("ours"),
]


def failing(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_what_passes(error: Exception) -> None:
    assert is_outage(error)
    assert not is_full(error)
    assert isinstance(told(error, "Get"), Unavailable)
    with pytest.raises(Unavailable):
        Patience().try_for(0.0, lambda: failing(error))


@pytest.mark.parametrize("error", LASTING, ids=lambda error: type(error).__name__)
def test_what_does_not(error: Exception) -> None:
    assert not is_outage(error)
    assert isinstance(told(error, "Get"), InternalError)
    with pytest.raises(type(error)):
        Patience().try_for(0.0, lambda: failing(error))


def test_a_file_that_finds_no_room_is_a_full_disk() -> None:
    assert is_full(OSError(errno.ENOSPC, "no room"))
    assert not is_full(OSError(errno.EACCES, "no"))


def full_sqlite(folder: Path) -> Exception:
    database = Database.open("", folder / "deck.db")
    try:
        with database.transaction() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1")
            with pytest.raises(OperationalError) as caught:
                connection.exec_driver_sql("CREATE TABLE more AS SELECT zeroblob(100000)")
        return caught.value
    finally:
        database.close()


def full_postgresql(folder: Path) -> Exception:
    return OperationalError("INSERT", {}, psycopg.errors.DiskFull())


@pytest.mark.parametrize("fill", [full_sqlite, full_postgresql])
def test_a_full_disk_is_told_as_one_and_not_waited_for(
    fill: Callable[[Path], Exception], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    error = fill(tmp_path)
    assert is_full(error)
    assert is_outage(error), "events are kept until there is room"
    answer = told(error, "Get")
    assert isinstance(answer, StoreFull)
    assert "disk" in answer.message
    assert "make room" in answer.hint
    tries = 0

    def work() -> None:
        nonlocal tries
        tries += 1
        raise error

    with pytest.raises(StoreFull):
        Patience().try_for(3600.0, work)
    assert tries == 1
    assert "make room" in caplog.text
