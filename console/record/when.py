"""A place in a recording as people type it: +30s, -1m30s, 90s, 1:30, 50%, 14:02:11, start, end."""

from __future__ import annotations

import re
import time
from typing import Final

from control_plane.contracts.errors import InvalidRequest

EXAMPLES: Final = "+30s, -1m30s, 90s, 1:30, 50%, 14:02:11, start or end"

_SPAN: Final = re.compile(r"([+-]?)(?=\d)(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?", re.ASCII)
_SHARE: Final = re.compile(r"(\d+(?:\.\d+)?)%", re.ASCII)
_PLACE: Final = re.compile(r"(\d+):([0-5]\d)", re.ASCII)
_CLOCK: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d):([0-5]\d)", re.ASCII)
_DAY_S: Final = 86_400.0


def when(word: str, at: float, first: float, last: float) -> float:
    """The unix time that the word means in a recording from ``first`` to ``last`` that stands at ``at``.

    Without a sign it counts from the beginning, 1:30 as the console shows it. A time of day is local, and the first one
    that is not before the recording. The time may lie outside of the recording. Raises InvalidRequest.
    """
    word = word.strip()
    if word in ("start", "end"):
        return first if word == "start" else last
    if match := _SHARE.fullmatch(word):
        return first + (last - first) * min(float(match[1]), 100.0) / 100
    if match := _PLACE.fullmatch(word):
        return first + int(match[1]) * 60 + int(match[2])
    if match := _CLOCK.fullmatch(word):
        day = time.localtime(first)
        clock = (int(match[1]), int(match[2]), int(match[3]))
        unix = time.mktime((day.tm_year, day.tm_mon, day.tm_mday, *clock, 0, 0, -1))
        return unix if unix + 1.0 > first else unix + _DAY_S
    if match := _SPAN.fullmatch(word):
        hours, minutes, seconds = (float(part or 0) for part in match.group(2, 3, 4))
        span = hours * 3600 + minutes * 60 + seconds
        return {"+": at + span, "-": at - span}.get(match[1], first + span)
    raise InvalidRequest(f"{word!r} is no time in a recording: try {EXAMPLES}", param="time")
