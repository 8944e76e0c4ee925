"""Trying again while a database is locked, or being restarted."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from control_plane.contracts.errors import DropReason, StoreFull, Unavailable
from control_plane.store.outage import is_full, is_outage

T = TypeVar("T")

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0

log = logging.getLogger(__name__)


class Patience:
    """``hurry`` ends all waiting: what is being tried is tried to its end, and not again."""

    def __init__(self) -> None:
        self._hurry = threading.Event()

    def hurry(self) -> None:
        self._hurry.set()

    def try_for(self, seconds: float, work: Callable[[], T]) -> T:
        """What ``work`` gives, which may be called several times and so must not mind being done twice. Raises
        Unavailable when the database does not answer for so long, StoreFull at once when its disk is full."""
        deadline = time.monotonic() + seconds
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return work()
            except Exception as error:
                if is_full(error):
                    log.error("the disk of the conversation store is full: make room on it")
                    raise StoreFull(
                        "The disk of the conversation store is full: its operator has to make room.",
                        retry=False,
                    ) from None
                if not is_outage(error):
                    raise
                passing = error
            if time.monotonic() + pause >= deadline or self._hurry.wait(pause):
                # Its text would name the statement's parameters, which callers wrote.
                log.warning("the conversation store does not answer: %s", type(passing).__name__)
                raise Unavailable(
                    "Conversations cannot be read or stored at the moment.", reason=DropReason.NO_CAPACITY
                )
            pause = min(2 * pause, _LONGEST_PAUSE_S)
