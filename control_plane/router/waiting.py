"""Calls that wait for an endpoint: a fair line for each model, bounds for all and each tier, and deadlines. Pure."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import Generic

from control_plane.contracts.admission import AdmissionRules
from control_plane.router.fair_line import FairLine, MayGo, W


class Waiting(Generic[W]):
    """A call that comes back (its worker was lost) always may wait, and is before those that were never sent."""

    def __init__(self) -> None:
        self._lines: dict[str, FairLine[W]] = {}
        self._deadlines: list[tuple[float, int]] = []
        self._waiting: dict[int, W] = {}
        self._by_tier: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, waiter: W) -> bool:
        return waiter.seq in self._waiting

    def __iter__(self) -> Iterator[W]:
        return iter(tuple(self._waiting.values()))

    def by_tier(self) -> dict[tuple[str, str], int]:
        """How many wait, by model and tier."""
        return dict(self._by_tier)

    def of_tier(self, tier: str) -> int:
        return sum(count for (_, name), count in self._by_tier.items() if name == tier)

    def has_room(self, rules: AdmissionRules) -> bool:
        return len(self._waiting) < rules.queue_limit

    def less_important(self, waiter: W) -> W | None:
        """Who has to leave a full queue where this one comes: the youngest of the lowest priority, if that is below
        its own."""
        others = (other for other in self._waiting.values() if not other.admitted and other.priority > waiter.priority)
        return max(others, key=lambda other: (other.priority, other.seq), default=None)

    def add(self, waiter: W) -> None:
        line = self._lines.get(waiter.model)
        if line is None:
            line = self._lines[waiter.model] = FairLine()
        line.add(waiter)
        self._waiting[waiter.seq] = waiter
        self._by_tier[waiter.model, waiter.service.tier] += 1
        heapq.heappush(self._deadlines, (waiter.deadline, waiter.seq))

    def remove(self, waiter: W) -> bool:
        """Whether it waited."""
        waited = waiter in self
        if waited:
            self._take(waiter)
            self._drop_if_idle(waiter.model)
        return waited

    def first(self, model: str, may_go: MayGo, skip: Container[int] = ()) -> W | None:
        """The next one to be sent; ``skip`` are the ``seq`` of those that can't be."""
        line = self._lines.get(model)
        return line.first(may_go, skip) if line is not None else None

    def sent(self, waiter: W, tokens: float) -> None:
        """A call, whether or not it waited, went to a worker: it will hold so many tokens."""
        waited = waiter in self and self._take(waiter)
        line = self._lines.get(waiter.model)
        if line is not None:
            line.sent(waiter, tokens, waited=waited)
            self._drop_if_idle(waiter.model)

    def ended(self, waiter: W, tokens: float) -> None:
        """A call that was sent has ended, and has used so many tokens in all."""
        line = self._lines.get(waiter.model)
        if line is not None:
            line.ended(waiter, tokens)

    def place_of(self, waiter: W) -> tuple[int, int]:
        """Of one that waits: its place in its model's line, 1 is the next, and how many are in that line."""
        line = self._lines[waiter.model]
        queued = sum(count for (model, _), count in self._by_tier.items() if model == waiter.model)
        return line.ahead_of(waiter) + 1, queued

    def line(self, model: str) -> Sequence[W]:
        """Those that wait for the model, by arrival; a copy."""
        line = self._lines.get(model)
        return sorted(line, key=lambda waiter: waiter.seq) if line is not None else ()

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

    def _take(self, waiter: W) -> bool:
        """Whether it was in its class's line."""
        del self._waiting[waiter.seq]
        key = (waiter.model, waiter.service.tier)
        self._by_tier[key] -= 1
        if not self._by_tier[key]:
            del self._by_tier[key]
        return self._lines[waiter.model].remove(waiter)

    def _drop_if_idle(self, model: str) -> None:
        if next(iter(self._lines[model]), None) is None:
            del self._lines[model]
