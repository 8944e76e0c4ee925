"""What just happened because of the operator, and what still goes on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from control_plane.contracts.fleet import DrainProgress

SHOWN_S = {"info": 8.0, "warning": 15.0, "error": 30.0}


@dataclass(frozen=True, slots=True)
class Notice:
    """``severity``: info, progress, warning or error. ``until_mono`` is when it goes away; ``key`` names what it is
    about, so that the next word on it takes its place."""

    text: str
    severity: str
    until_mono: float
    key: str = ""


class Notices:
    def __init__(self) -> None:
        self._notices: list[Notice] = []

    def add(self, text: str, severity: str, now_mono: float, key: str = "") -> None:
        """Progress stays until something else is said under its key."""
        until = now_mono + SHOWN_S[severity] if severity in SHOWN_S else math.inf
        notice = Notice(text, severity, until, key)
        if key and any(old.key == key for old in self._notices):
            self._notices = [notice if old.key == key else old for old in self._notices]
        else:
            self._notices.append(notice)

    def current(self, now_mono: float) -> Sequence[Notice]:
        self._notices = [notice for notice in self._notices if notice.until_mono > now_mono]
        return tuple(self._notices)

    def drop(self, key: str) -> None:
        """Forget what was said under this key."""
        self._notices = [notice for notice in self._notices if notice.key != key]


def drain_words(progress: DrainProgress) -> tuple[str, str]:
    """A drain's progress in words, and how serious it is."""
    who = progress.worker_id
    named = ", ".join(progress.request_ids[:3]) + (", …" if len(progress.request_ids) > 3 else "")
    left = f"{progress.in_flight} in flight" + (f": {named}" if named else "")
    if progress.timed_out:
        return f"drain {who} timed out, {left}; it stays cordoned", "error"
    if progress.done:
        return f"drain {who}: {progress.message or 'nothing runs on it any more'}; it stays cordoned", "info"
    return f"drain {who}: {left}", "progress"
