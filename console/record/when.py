"""A place in a recording as people type it: +30s, -1m, 90s, 50%, 14:02, 14:02:11, start, end."""

from __future__ import annotations

import re
import time
from typing import Final

from control_plane.contracts.errors import InvalidRequest

EXAMPLES: Final = "+30s, -1m, 90s, 50%, 14:02:11, start or end"

_SPAN: Final = re.compile(r"([+-]?)(\d+(?:\.\d+)?)(s|m|h)?")
_SHARE: Final = re.compile(r"(\d+(?:\.\d+)?)%")
_CLOCK: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
_DAY_S: Final = 86_400.0


def when(word: str, at: float, first: float, last: float) -> float:
    """The unix time that the word means in a recording from ``first`` to ``last`` that stands at ``at``.

    A time of day is local, and the first one that is not before the recording. It may lie outside of the recording.
    Raises InvalidRequest.
    """
    word = word.strip()
    if word in ("start", "end"):
        return first if word == "start" else last
    if match := _SHARE.fullmatch(word):
        return first + (last - first) * min(float(match[1]), 100.0) / 100
    if match := _CLOCK.fullmatch(word):
        day = time.localtime(first)
        parts = (int(match[1]), int(match[2]), int(match[3] or 0))
        unix = time.mktime((day.tm_year, day.tm_mon, day.tm_mday, *parts, 0, 0, -1))
        named = 1.0 if match[3] else 60.0
        return unix if unix + named > first else unix + _DAY_S
    if match := _SPAN.fullmatch(word):
        seconds = float(match[2]) * _UNITS[match[3] or "s"]
        return {"+": at + seconds, "-": at - seconds}.get(match[1], first + seconds)
    raise InvalidRequest(f"{word!r} is no time in a recording: try {EXAMPLES}", param="time")
