"""Who is next among the calls that wait for one model. Pure.

First those that were sent before and came back, in the order of their arrival. Then whichever class of service has had
less than its minimum share. Then by priority; among classes of one priority by the tokens they have had, divided by
their weights; in a class by the tokens that each flow (a tenant) has had; in a flow first come first served.

Tokens are counted while somebody waits: what was used when there was enough for all is held against nobody.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterator
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

from control_plane.contracts.admission import Service
from control_plane.router.virtual_time import VirtualTime


class Waiter(Protocol):
    """``seq`` is the order of arrival, unique; ``deadline`` is monotonic seconds; ``priority``: lower is served first.
    ``cost`` is what it will probably hold, in tokens. ``admitted``: it was sent before."""

    @property
    def seq(self) -> int: ...

    @property
    def model(self) -> str: ...

    @property
    def deadline(self) -> float: ...

    @property
    def priority(self) -> int: ...

    @property
    def service(self) -> Service: ...

    @property
    def flow(self) -> str: ...

    @property
    def cost(self) -> float: ...

    @property
    def admitted(self) -> bool: ...


W = TypeVar("W", bound=Waiter)
MayGo = Callable[[Service, bool], bool]
"""Whether a class may be served now; the second tells that it is owed its minimum share."""

_SEQ = attrgetter("seq")


class _Class(Generic[W]):
    """The calls of one class of service at one priority that wait. ``due``: its minimum share has its next call served
    when all together have had so many tokens."""

    def __init__(self, service: Service, priority: int) -> None:
        self.service = service
        self.priority = priority
        self.due = 0.0
        self._times = VirtualTime()
        self._lines: dict[str, list[W]] = {}
        self._heads: list[tuple[float, int, str]] = []  # a heap; what is not true any more is passed over

    @property
    def waits(self) -> bool:
        return bool(self._lines)

    def first(self, skip: Container[int] = ()) -> W | None:
        if skip:
            heads = (next((w for w in line if w.seq not in skip), None) for line in self._lines.values())
            return min((w for w in heads if w is not None), key=lambda w: (self._times[w.flow], w.seq), default=None)
        while self._heads:
            time, seq, flow = self._heads[0]
            line = self._lines.get(flow)
            if line and line[0].seq == seq and self._times[flow] == time:
                return line[0]
            heapq.heappop(self._heads)
        return None

    def add(self, waiter: W) -> None:
        line = self._lines.get(waiter.flow)
        if line is None:
            self._times.enter(waiter.flow)
            line = self._lines[waiter.flow] = []
        insort(line, waiter, key=_SEQ)
        self._remember(waiter.flow)

    def remove(self, waiter: W) -> None:
        line = self._lines[waiter.flow]
        del line[bisect_left(line, waiter.seq, key=_SEQ)]
        if not line:
            del self._lines[waiter.flow]
        self._remember(waiter.flow)

    def serve(self, flow: str, tokens: float, *, waited: bool) -> None:
        self._times.serve(flow, tokens, waited=waited)
        self._times.prune(self._lines)
        self._remember(flow)

    def correct(self, flow: str, tokens: float) -> None:
        self._times.correct(flow, tokens)
        self._remember(flow)

    def promise(self, since: float) -> None:
        """When it is due next, if its last turn counts from ``since``."""
        head = self.first()
        if head is not None and self.service.min_share:
            self.due = since + head.cost / self.service.min_share

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def before(self, seq: int) -> int:
        """How many arrived before this one."""
        return sum(bisect_left(line, seq, key=_SEQ) for line in self._lines.values())

    def waiters(self) -> Iterator[W]:
        for line in self._lines.values():
            yield from line

    def _remember(self, flow: str) -> None:
        if line := self._lines.get(flow):
            heapq.heappush(self._heads, (self._times[flow], line[0].seq, flow))
        if len(self._heads) > 2 * len(self._lines) + 64:
            self._heads = [(self._times[name], line[0].seq, name) for name, line in self._lines.items()]
            heapq.heapify(self._heads)


class FairLine(Generic[W]):
    """``served`` are the tokens of all calls that were sent since somebody waits."""

    def __init__(self) -> None:
        self.served = 0.0
        self._again: list[W] = []
        self._classes: dict[tuple[int, str], _Class[W]] = {}
        self._times: dict[int, VirtualTime] = {}
        self._charged: dict[int, float] = {}

    def __iter__(self) -> Iterator[W]:
        """In no order."""
        yield from self._again
        for each in self._classes.values():
            yield from each.waiters()

    def add(self, waiter: W) -> None:
        if waiter.admitted:
            insort(self._again, waiter, key=_SEQ)
            return
        own = self._class(waiter)
        began = not own.waits
        own.add(waiter)
        if began:
            self._times[own.priority].enter(own.service.tier)
            own.promise(max(own.due, self.served))

    def remove(self, waiter: W) -> bool:
        """It waits no more, whether or not it is sent. False for one that had come back: it was in no class's line."""
        index = bisect_left(self._again, waiter.seq, key=_SEQ)
        if index < len(self._again) and self._again[index] is waiter:
            del self._again[index]
            return False
        self._classes[waiter.priority, waiter.service.tier].remove(waiter)
        return True

    def ahead_of(self, waiter: W) -> int:
        """How many wait before it, once it has been added: those that came back, those of a higher priority, and those
        of its own that were there before."""
        if waiter.admitted:
            return bisect_left(self._again, waiter.seq, key=_SEQ)
        same = [own for own in self._classes.values() if own.priority == waiter.priority]
        higher = sum(len(own) for own in self._classes.values() if own.priority < waiter.priority)
        return len(self._again) + higher + sum(own.before(waiter.seq) for own in same)

    def first(self, may_go: MayGo, skip: Container[int] = ()) -> W | None:
        """The one to send next, of those that may go; ``skip`` are the ``seq`` of those that can't be sent."""
        for waiter in self._again:
            if waiter.seq not in skip:
                return waiter
        waiting = [each for each in self._classes.values() if each.waits]
        owed = [each for each in waiting if each.service.min_share and each.due <= self.served]
        owed.sort(key=lambda each: each.due)
        waiting.sort(key=self._rank)
        for classes, is_owed in ((owed, True), (waiting, False)):
            for each in classes:
                if may_go(each.service, is_owed) and (found := each.first(skip)) is not None:
                    return found
        return None

    def sent(self, waiter: W, tokens: float, *, waited: bool) -> None:
        """A call went to a worker, out of its class's line (after ``remove``) or past it, to hold so many tokens."""
        own = self._class(waiter)
        self.served += tokens
        self._charged[waiter.seq] = tokens
        self._times[own.priority].serve(own.service.tier, tokens / own.service.weight, waited=waited)
        own.serve(waiter.flow, tokens, waited=waited)
        if waited:
            own.promise(min(own.due, self.served))

    def ended(self, waiter: W, tokens: float) -> None:
        """A call that was sent is over and has used so many tokens. Those from before somebody waited don't count."""
        charged = self._charged.pop(waiter.seq, None)
        if charged is not None:
            own = self._class(waiter)
            self._times[own.priority].correct(own.service.tier, (tokens - charged) / own.service.weight)
            own.correct(waiter.flow, tokens - charged)

    def _class(self, waiter: W) -> _Class[W]:
        key = (waiter.priority, waiter.service.tier)
        own = self._classes.get(key)
        if own is None:
            own = self._classes[key] = _Class(waiter.service, waiter.priority)
            self._times.setdefault(waiter.priority, VirtualTime())
        elif own.service is not waiter.service:
            own.service = waiter.service  # the policy may have changed
        return own

    def _rank(self, each: _Class[W]) -> tuple[int, float]:
        return each.priority, self._times[each.priority][each.service.tier]
