"""Whether a call is let in: what its class of service may expect in the band that its model is in. Pure."""

from __future__ import annotations

from enum import Enum

from control_plane.contracts.admission import Band, Service


class Verdict(Enum):
    """``THROTTLE`` is the caller's tier's fault (429), ``REFUSE`` is ours (503)."""

    DISPATCH = "dispatch"
    WAIT = "wait"
    THROTTLE = "throttle"
    REFUSE = "refuse"


_AT_BUSY = {"dispatch": Verdict.DISPATCH, "queue": Verdict.WAIT, "throttle": Verdict.THROTTLE}
_AT_REJECT = {"queue": Verdict.WAIT, "refuse": Verdict.REFUSE}


def decide(service: Service, band: Band | None) -> Verdict:
    """For a call that has just come. ``band`` None: no endpoint can be picked, so it waits until one can."""
    if band is Band.BUSY:
        return _AT_BUSY[service.at_busy]
    if band is Band.REJECT:
        return _AT_REJECT[service.at_reject]
    return Verdict.DISPATCH


def may_go(service: Service, band: Band | None, *, owed: bool) -> bool:
    """Whether a call that waits may be sent. ``owed``: its class has had less than its minimum share, which it gets
    also where workers are busy."""
    if band is Band.REJECT:
        return False
    return band is not Band.BUSY or owed or service.at_busy == "dispatch"
