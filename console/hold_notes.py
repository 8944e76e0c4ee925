"""Why a request was kept waiting, in words."""

from __future__ import annotations

from typing import Final

from console import figures
from control_plane.contracts.hold import Hold

_ENDS: Final = {1: "st", 2: "nd", 3: "rd"}


def hold_words(hold: Hold) -> str:
    """One stay in the queue in a line: how long, why, and at which place it began."""
    waited = f"{'waited' if hold.over else 'has waited'} {figures.seconds(hold.waited_s)}"
    return f"{waited}: {_cause(hold)}; {_ordinal(hold.position)} of {hold.queued} when it joined"


def _cause(hold: Hold) -> str:
    full = f" ({figures.full(hold.saturation)})" if hold.saturation is not None else ""
    tier = f", where tier {hold.tier} waits" if hold.tier else ""
    match hold.reason:
        case "busy":
            return f"its model was busy{full}{tier}"
        case "full":
            return f"its model was full{full}{tier}"
        case "no_worker":
            return "no worker of its model could be picked"
        case "no_room":
            return f"let in at band {hold.band}{full}, but no worker could take it just then"
        case "returned":
            return "its worker was lost or refused it, and no other could take it just then"
    return hold.reason.replace("_", " ")


def _ordinal(number: int) -> str:
    teens = 10 < number % 100 < 14
    return f"{number:,}{'th' if teens else _ENDS.get(number % 10, 'th')}"
