"""Sizes as people write them: "512MiB", "1.5 GB", or a number of bytes."""

from __future__ import annotations

import re
from decimal import Decimal

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", 1):
    _UNITS[f"{_letter}b"] = 1000**_power
    _UNITS[f"{_letter}ib"] = 1024**_power

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def parse_size(value: str | int) -> int:
    """Bytes. Raises ValueError with a message for people."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError('a size like "512MiB" is needed')
    if isinstance(value, int):
        if value < 0:
            raise ValueError("a size cannot be negative")
        return value
    match = _SIZE.fullmatch(value)
    if match is None or match.group(2).lower() not in _UNITS:
        raise ValueError(f'{value!r} is not a size; write "512MiB", "2GiB" or a number of bytes')
    return int(Decimal(match.group(1)) * _UNITS[match.group(2).lower()])
