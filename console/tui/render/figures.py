"""Numbers for narrow columns. None is a number that nobody knows, and is drawn as a dash; so is one that is none."""

from __future__ import annotations

import time

from console import figures
from console.figures import NONE as UNKNOWN
from console.tui.live.loads import finite

__all__ = ["UNKNOWN", "age", "clock", "count", "duration", "known", "percent", "rate", "size"]


def count(value: float | None) -> str:
    """A whole number, shortened above 9,999: 9999, 12k, 3.4M, 5.6G."""
    if finite(value) is None or value is None:
        return UNKNOWN
    number = round(value)
    if abs(number) < 10_000:
        return str(number)
    if abs(number) < 999_500:
        return f"{number / 1e3:.0f}k"
    if abs(number) < 999_950_000:
        return f"{number / 1e6:.1f}M"
    return f"{number / 1e9:.1f}G" if abs(number) < 1e13 else f"{number:.0e}"


def rate(value: float | None) -> str:
    """Something per second: 0, 0.4, 6.3, 412, 12k."""
    if value is not None and 0.05 <= abs(value) < 9.95:
        return f"{value:.1f}"
    return count(value)


def percent(fraction: float | None) -> str:
    if finite(fraction) is None or fraction is None:
        return UNKNOWN
    return figures.percent(fraction) if abs(fraction) < 10 else f"{count(fraction * 100)}%"


def duration(seconds: float | None) -> str:
    """A latency in three digits: 85µs, 4.2ms, 312ms, 1.90s, 12.3s, 2m05s."""
    if finite(seconds) is None or seconds is None:
        return UNKNOWN
    magnitude = abs(seconds)
    if magnitude < 0.5e-6:
        return "0s"
    if magnitude < 0.9995e-3:
        return f"{seconds * 1e6:.0f}µs"
    if magnitude < 9.95e-3:
        return f"{seconds * 1e3:.1f}ms"
    if magnitude < 0.9995:
        return f"{seconds * 1e3:.0f}ms"
    if magnitude < 9.995:
        return f"{seconds:.2f}s"
    return f"{seconds:.1f}s" if magnitude < 59.95 else age(seconds)


def age(seconds: float | None) -> str:
    """How long something has lasted: 8s, 2m05s, 3h10m, 4d2h. Clocks differ a little, so less than nothing is 0s."""
    if finite(seconds) is None or seconds is None:
        return UNKNOWN
    return figures.age(max(0.0, seconds)) if seconds < 1e9 else "ever"


def size(number: float | None) -> str:
    """Bytes in powers of 1024: 512MiB, 1.3GiB."""
    if finite(number) is None or number is None:
        return UNKNOWN
    for unit in ("B", "KiB", "MiB"):
        if abs(number) < 1024:
            return f"{number:.0f}{unit}"
        number /= 1024
    return f"{count(number)}GiB" if abs(number) >= 9999 else f"{number:.1f}GiB"


def clock(unix: float | None) -> str:
    """The time of day, local."""
    try:
        return time.strftime("%H:%M:%S", time.localtime(unix)) if unix else UNKNOWN
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


def known(value: float) -> float | None:
    """The contracts write 0 for a time that has not come yet."""
    return value or None
