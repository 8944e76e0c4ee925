"""What one router sent to an endpoint, and saw end there, since the endpoint's load was sampled. Pure."""

from __future__ import annotations

from collections import deque

KEPT_S = 6.0
"""A sample older than this says nothing, so what happened longer ago is not needed."""


class SinceSample:
    """``tokens`` and ``sequences`` are what came, less what went; both may be negative. Times are monotonic seconds."""

    __slots__ = ("_changes", "sequences", "tokens")

    def __init__(self) -> None:
        self.tokens = 0
        self.sequences = 0
        self._changes: deque[tuple[float, int, int]] = deque()

    def add(self, at: float, tokens: int, sequences: int) -> None:
        """``at`` is not before that of the last one."""
        self._changes.append((at, tokens, sequences))
        self.tokens += tokens
        self.sequences += sequences
        self.forget(at - KEPT_S)

    def forget(self, until: float) -> None:
        """A sample was taken at ``until``: what happened up to then is in it."""
        changes = self._changes
        while changes and changes[0][0] <= until:
            _, tokens, sequences = changes.popleft()
            self.tokens -= tokens
            self.sequences -= sequences
