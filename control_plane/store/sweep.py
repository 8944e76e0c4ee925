"""Bringing into the store what dead gateways left: the text they delivered, and turns that nobody runs any more; and
deleting what has been kept for long enough."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from control_plane.contracts.conversation import TurnEnd
from control_plane.contracts.errors import InferDeckError
from control_plane.store.journal import Journal, dead_journals
from control_plane.store.patience import Patience
from control_plane.store.turns import Turns

LONGEST_TURN_S: Final = 24 * 3600.0
"""What runs for longer belongs to a gateway that nobody hears of: its machine is gone."""

KEEP_RESPONSES_S: Final = 30 * 24 * 3600.0
"""How long a stored response is kept that belongs to no conversation."""

MOST_RESPONSES: Final = 100_000
"""How many of them are kept for a tenant: the newest."""

_TRY_S: Final = 60.0

log = logging.getLogger(__name__)


def sweep(journals: Path, turns: Turns, patience: Patience) -> int:
    """How many turns were closed. What the database does not take stays in its journal for the next sweep. Several
    processes may sweep at one time."""
    now = time.time()
    closed = 0
    for journal in dead_journals(journals):
        closed += _try(partial(_bring_in, journal, turns, patience))
    closed += _try(lambda: patience.try_for(_TRY_S, lambda: turns.close_older(now - LONGEST_TURN_S)))
    if closed:
        log.warning("turns of dead gateways were closed", extra={"turns": closed})
    pruned = _try(lambda: patience.try_for(_TRY_S, lambda: turns.prune(now - KEEP_RESPONSES_S)))
    pruned += _try(lambda: patience.try_for(_TRY_S, lambda: turns.keep_newest(MOST_RESPONSES)))
    if pruned:
        log.info("old responses were deleted", extra={"responses": pruned})
    return closed


def _bring_in(journal: Journal, turns: Turns, patience: Patience) -> int:
    closed = 0
    for turn_id, end in journal.kept():
        closed += patience.try_for(_TRY_S, partial(_close, turns, turn_id, end))
        journal.forget(turn_id)
    closed += patience.try_for(_TRY_S, partial(turns.close, journal.owner))
    journal.close()
    return closed


def _close(turns: Turns, turn_id: str, end: TurnEnd | None) -> bool:
    if end is not None:
        return turns.end(turn_id, end)
    turns.withdraw(turn_id)
    return False


def _try(work: Callable[[], int]) -> int:
    """One that fails keeps the others from nothing."""
    try:
        return work()
    except (InferDeckError, OSError, SQLAlchemyError) as error:
        # Its text may hold what a caller wrote.
        log.error("a part of the sweep failed: %s", type(error).__name__)
        return 0
