"""Calls that wait for an endpoint: bounded, first come first served per model, each with its deadline. Pure."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Sequence
from operator import attrgetter
from typing import Generic, Protocol, TypeVar


class Waiter(Protocol):
    """``seq`` is the order of arrival, unique; ``deadline`` is monotonic seconds."""

    @property
    def seq(self) -> int: ...

    @property
    def model(self) -> str: ...

    @property
    def deadline(self) -> float: ...


W = TypeVar("W", bound=Waiter)
_SEQ = attrgetter("seq")


class Waiting(Generic[W]):
    """A call that comes back (its worker was lost) takes the place that its arrival gives it, not the last one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lines: dict[str, list[W]] = {}
        self._deadlines: list[tuple[float, int]] = []
        self._waiting: dict[int, W] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, waiter: W) -> bool:
        return waiter.seq in self._waiting

    @property
    def has_room(self) -> bool:
        """Whether a new call may wait. Calls that were placed before always may."""
        return len(self._waiting) < self._limit

    def add(self, waiter: W) -> None:
        insort(self._lines.setdefault(waiter.model, []), waiter, key=_SEQ)
        self._waiting[waiter.seq] = waiter
        heapq.heappush(self._deadlines, (waiter.deadline, waiter.seq))

    def remove(self, waiter: W) -> bool:
        """Whether it waited."""
        if self._waiting.pop(waiter.seq, None) is None:
            return False
        line = self._lines[waiter.model]
        del line[bisect_left(line, waiter.seq, key=_SEQ)]
        if not line:
            del self._lines[waiter.model]
        return True

    def line(self, model: str) -> Sequence[W]:
        """Those that wait for the model, first first; a copy."""
        return tuple(self._lines.get(model, ()))

    def models(self) -> Sequence[str]:
        """Every model that somebody waits for."""
        return tuple(self._lines)

    def expired(self, now: float) -> list[W]:
        """Take out those whose deadline has passed, earliest deadline first."""
        out = []
        while (due := self.next_deadline()) is not None and due <= now:
            waiter = self._waiting[self._deadlines[0][1]]
            self.remove(waiter)
            out.append(waiter)
        return out

    def next_deadline(self) -> float | None:
        while self._deadlines:
            deadline, seq = self._deadlines[0]
            waiter = self._waiting.get(seq)
            if waiter is not None and waiter.deadline == deadline:
                return deadline
            heapq.heappop(self._deadlines)
        return None
