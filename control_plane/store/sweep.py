"""Bringing into the store what dead gateways left: the text they delivered, and turns that nobody runs any more."""

from __future__ import annotations

import logging
import time
from functools import partial
from pathlib import Path
from typing import Final

from control_plane.contracts.errors import InferDeckError
from control_plane.store.journal import dead_journals
from control_plane.store.patience import Patience
from control_plane.store.turns import Turns

LONGEST_TURN_S: Final = 24 * 3600.0
"""What runs for longer belongs to a gateway that nobody hears of: its machine is gone."""

KEEP_RESPONSES_S: Final = 30 * 24 * 3600.0
"""How long a stored response is kept that belongs to no conversation."""

_TRY_S: Final = 60.0

log = logging.getLogger(__name__)


def sweep(journals: Path, turns: Turns, patience: Patience) -> int:
    """How many turns were closed. What the database does not take stays in its journal for the next sweep. Several
    processes may sweep at one time."""
    closed = 0
    try:
        for journal in dead_journals(journals):
            for turn_id, end in journal.kept():
                closed += patience.try_for(_TRY_S, partial(turns.end, turn_id, end))
                journal.forget(turn_id)
            closed += patience.try_for(_TRY_S, partial(turns.close, journal.owner))
            journal.close()
        now = time.time()
        closed += patience.try_for(_TRY_S, lambda: turns.close_older(now - LONGEST_TURN_S))
        patience.try_for(_TRY_S, lambda: turns.prune(now - KEEP_RESPONSES_S))
    except (InferDeckError, OSError) as error:
        log.error("what dead gateways left could not be stored: %s", type(error).__name__)
    if closed:
        log.warning("turns of dead gateways were closed", extra={"turns": closed})
    return closed
