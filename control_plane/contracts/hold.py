"""Why a router kept a call waiting, and for how long.

Field names equal those of ``v1/decision.proto``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class HoldReason(StrEnum):
    """``BUSY`` and ``FULL``: its class of service waits in the model's band. ``NO_WORKER``: none could be reached, or
    all were cordoned or asleep. ``NO_ROOM``: it was let in, and no worker could take it just then. ``RETURNED``: it had
    been at a worker, which was lost or refused it."""

    BUSY = "busy"
    FULL = "full"
    NO_WORKER = "no_worker"
    NO_ROOM = "no_room"
    RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class Hold:
    """One stay in a router's queue, with what was true when it began.

    ``start_s`` is seconds after the call's arrival; ``waited_s`` goes on until it is ``over``. ``band`` and
    ``saturation`` (1 is full) are those of its model, empty and None where no worker could be picked. ``position`` is
    its place among the ``queued`` calls that waited for the model, 1 is the next; those of one priority are served in
    turn by tenant, so that it may leave earlier or later than its place says.
    """

    reason: str
    start_s: float
    waited_s: float = 0.0
    over: bool = False
    tier: str = ""
    band: str = ""
    saturation: float | None = None
    position: int = 0
    queued: int = 0
