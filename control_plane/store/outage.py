"""What is the database's fault: it is locked, away, or being restarted, which passes; or full, until somebody makes
room."""

from __future__ import annotations

import errno
import sqlite3

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

_DISK_FULL = "53100"
"""PostgreSQL's SQLSTATE."""


def is_outage(error: BaseException) -> bool:
    """Whether the database did not answer, or has no room; of anything else, trying again makes nothing better."""
    if isinstance(error, OperationalError | InterfaceError | PoolTimeout):
        return True
    return isinstance(error, DBAPIError) and error.connection_invalidated


def cause_of(error: BaseException) -> str:
    """For logs: the driver's own words, which have no parameters of the statement."""
    return str(error.orig) if isinstance(error, DBAPIError) else type(error).__name__


def is_full(error: BaseException) -> bool:
    """Whether the database, or a file, has no room: until somebody has made some, trying again makes nothing better."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOSPC
    driver = error.orig if isinstance(error, DBAPIError) else None
    code, state = getattr(driver, "sqlite_errorcode", None), getattr(driver, "sqlstate", None)
    return code == sqlite3.SQLITE_FULL or state == _DISK_FULL
