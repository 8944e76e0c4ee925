"""What the database is at fault for: the same to those who try again and to those who tell it."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from control_plane.api.answering import told
from control_plane.contracts.errors import InternalError, Unavailable
from control_plane.store.outage import is_outage
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
    assert isinstance(told(error, "Get"), Unavailable)
    with pytest.raises(Unavailable):
        Patience().try_for(0.0, lambda: failing(error))


@pytest.mark.parametrize("error", LASTING, ids=lambda error: type(error).__name__)
def test_what_does_not(error: Exception) -> None:
    assert not is_outage(error)
    assert isinstance(told(error, "Get"), InternalError)
    with pytest.raises(type(error)):
        Patience().try_for(0.0, lambda: failing(error))
