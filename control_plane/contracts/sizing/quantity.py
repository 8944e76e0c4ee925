"""Bytes, counts and rates with three digits that count."""

from __future__ import annotations


def three(value: float) -> str:
    """Three significant digits, thousands apart, two below one: 1.22, 32.9, 131, 3,690, 0.58, 0.0029."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.1 else f"{value:.2g}"


def in_bytes(value: float) -> str:
    """Binary units: 80 KiB, 1.22 GiB."""
    size = abs(value)
    for unit, limit in (("B", 1 << 10), ("KiB", 1 << 20), ("MiB", 1 << 30), ("GiB", 1 << 50)):
        if size < limit or unit == "GiB":
            number = value / (limit >> (20 if unit == "GiB" else 10))
            return f"{number:.0f} B" if unit == "B" else f"{_short(number)} {unit}"
    raise AssertionError


def _short(value: float) -> str:
    return f"{value:.0f}" if value == int(value) and abs(value) < 1000 else three(value)


def count(value: float) -> str:
    """Parameters: 135 M, 70.6 B."""
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("K", 1e3)):
        if abs(value) >= size:
            return f"{three(value / size)} {unit}"
    return three(value)


def milliseconds(seconds: float) -> str:
    return f"{three(seconds * 1e3)} ms" if seconds < 10 else f"{three(seconds)} s"
