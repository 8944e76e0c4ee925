"""What is the database's fault, and passes: it is locked, full, away, or being restarted."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout


def is_outage(error: BaseException) -> bool:
    """Whether the database did not answer; of anything else, trying again makes nothing better."""
    if isinstance(error, OperationalError | InterfaceError | PoolTimeout):
        return True
    return isinstance(error, DBAPIError) and error.connection_invalidated
