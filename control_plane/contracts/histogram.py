"""Latencies as counts in logarithmic buckets, so that measurements of several processes can be added.

A bucket spans a factor of ``GROWTH``; its representative value (the geometric mean of its edges) is within 2 % of
everything in it. The idea is DDSketch (Masson, Rim, Lee: "DDSketch: a fast and fully-mergeable quantile sketch",
VLDB 2019), without the collapsing, since seconds between 1 µs and an hour need about 560 buckets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

GROWTH = 1.04
_LOG_GROWTH = math.log(GROWTH)
_SMALLEST_S = 1e-6


def bucket_of(seconds: float) -> int:
    """The index of the bucket that a duration falls into; whatever is below 1 µs counts as 1 µs."""
    return math.floor(math.log(max(seconds, _SMALLEST_S)) / _LOG_GROWTH)


class LatencyHistogram:
    """Counts of durations in seconds; merge, subtract nothing, ask for quantiles."""

    __slots__ = ("buckets", "count")

    def __init__(self, buckets: Mapping[int, int] | None = None) -> None:
        self.buckets: dict[int, int] = dict(buckets or {})
        self.count = sum(self.buckets.values())

    def add(self, seconds: float) -> None:
        index = bucket_of(seconds)
        self.buckets[index] = self.buckets.get(index, 0) + 1
        self.count += 1

    def merge(self, other: LatencyHistogram) -> None:
        for index, count in other.buckets.items():
            self.buckets[index] = self.buckets.get(index, 0) + count
        self.count += other.count

    def quantile(self, q: float) -> float:
        """The value below which the fraction q (0-1) lies, in seconds; 0.0 when empty."""
        if not self.count:
            return 0.0
        rank = max(1, math.ceil(q * self.count))
        seen = 0
        for index in sorted(self.buckets):
            seen += self.buckets[index]
            if seen >= rank:
                return float(GROWTH ** (index + 0.5))
        raise AssertionError("count disagrees with buckets")

    @classmethod
    def merged(cls, parts: Iterable[LatencyHistogram]) -> LatencyHistogram:
        total = cls()
        for part in parts:
            total.merge(part)
        return total
