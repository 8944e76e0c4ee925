"""One worker's time, divided at each moment among the sequences that are there. Pure.

A sequence's share between two moments is the difference of ``each`` at them: a worker that serves four at a time for a
second has spent a quarter of it on each. Time in which nothing is there falls to nobody.
"""

from __future__ import annotations


class TimeShare:
    """Times are monotonic seconds."""

    __slots__ = ("_at", "_each", "_sequences")

    def __init__(self) -> None:
        self._at = 0.0
        self._each = 0.0
        self._sequences = 0

    def each(self, now: float) -> float:
        """Seconds that would have fallen to one sequence that was always there, up to now."""
        if not self._sequences:
            return self._each
        return self._each + max(0.0, now - self._at) / self._sequences

    def change(self, now: float, sequences: int) -> None:
        """So many are there from now on."""
        self._each = self.each(now)
        self._at = max(now, self._at)
        self._sequences = max(0, sequences)
