"""Durations as people type them: ``30``, ``30s``, ``1.5m``, ``2h``, ``30d``."""

from __future__ import annotations

import math
import re

from control_plane.contracts.errors import InvalidRequest

_SHAPE = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")
_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str, option: str) -> float:
    """Seconds. Raises InvalidRequest that names the option."""
    match = _SHAPE.fullmatch(text.strip())
    value = float(match[1]) * _UNITS[match[2] or "s"] if match else math.inf
    if not math.isfinite(value):
        raise InvalidRequest(f"{option}: {text!r} is not a duration, for example 30s, 5m or 1h", param=option)
    return value
