"""Many values as one. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

Stat = Literal["p50", "p90", "p99", "mean", "max", "min"]


def statistic(values: Sequence[float], stat: Stat) -> float | None:
    """Nearest-rank quantiles."""
    if not values:
        return None
    ordered = sorted(values)
    if stat == "mean":
        return math.fsum(ordered) / len(ordered)
    if stat in ("max", "min"):
        return ordered[-1] if stat == "max" else ordered[0]
    return ordered[max(0, math.ceil(int(stat[1:]) / 100 * len(ordered)) - 1)]


def summed(values: Iterable[int]) -> float | None:
    """None where there are none."""
    every = list(values)
    return float(sum(every)) if every else None
