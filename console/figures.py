"""Numbers as people read them. A number without a source is shown as an en dash, never as zero."""

from __future__ import annotations

import math

NONE = "–"


def seconds(value: float | None) -> str:
    """A duration in the unit that fits: 0.34 ms, 12 ms, 0.62 s, 6.7 s, 3m05s."""
    if value is None:
        return NONE
    if value < 0.01:
        return f"{value * 1e3:.2f} ms"
    if value < 0.1:
        return f"{value * 1e3:.1f} ms"
    if value < 1:
        return f"{value * 1e3:.0f} ms"
    if value < 10:
        return f"{value:.2f} s"
    if value < 120:
        return f"{value:.1f} s"
    return age(value)


def age(value: float | None) -> str:
    """How long ago, in at most two units: 8s, 5m12s, 3h05m, 2d4h."""
    if value is None or value < 0:
        return NONE
    whole = int(value)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"


def size(value: float | None) -> str:
    """Bytes in binary units."""
    if value is None:
        return NONE
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def percent(fraction: float | None) -> str:
    return NONE if fraction is None else f"{fraction * 100:.0f}%"


def full(saturation: float | None) -> str:
    """Rounded down: 90% is what has reached a band that begins there."""
    return NONE if saturation is None else f"{math.floor(saturation * 100 + 1e-6)}%"


def rate(value: float | None) -> str:
    """Something per second."""
    if value is None:
        return NONE
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def count(value: int | None) -> str:
    return NONE if value is None else f"{value:,}"


def money(value: float | None) -> str:
    """An amount of whatever currency prices are in, to three figures: 12.5, 0.0301, 4.17e-06."""
    return NONE if value is None else f"{value:.3g}"


def plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
