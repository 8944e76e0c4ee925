"""The queue in front of the batch, in the order of the policy (``vllm/v1/core/sched/request_queue.py``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter

from workers.engine.sim.config import Policy
from workers.engine.sim.request_state import RequestState

_order = attrgetter("order")


class WaitingQueue(ABC):
    @abstractmethod
    def add(self, state: RequestState) -> None: ...

    @abstractmethod
    def put_back(self, state: RequestState) -> None:
        """A preempted request waits again."""

    @abstractmethod
    def first(self) -> RequestState:
        """The next to be admitted; the queue must not be empty."""

    @abstractmethod
    def pop(self) -> RequestState: ...

    @abstractmethod
    def remove(self, state: RequestState) -> None: ...

    @abstractmethod
    def head(self, most: int) -> Iterator[RequestState]: ...

    @abstractmethod
    def __len__(self) -> int: ...


class ArrivalQueue(WaitingQueue):
    """First come, first served; who was preempted comes before all."""

    def __init__(self) -> None:
        self._states: deque[RequestState] = deque()

    def add(self, state: RequestState) -> None:
        self._states.append(state)

    def put_back(self, state: RequestState) -> None:
        self._states.appendleft(state)

    def first(self) -> RequestState:
        return self._states[0]

    def pop(self) -> RequestState:
        return self._states.popleft()

    def remove(self, state: RequestState) -> None:
        self._states.remove(state)

    def head(self, most: int) -> Iterator[RequestState]:
        return islice(self._states, most)

    def __len__(self) -> int:
        return len(self._states)


class PriorityQueue(WaitingQueue):
    """By priority, then arrival, then id; who was preempted has no privilege."""

    def __init__(self) -> None:
        self._states: list[RequestState] = []

    def add(self, state: RequestState) -> None:
        if self._states:
            insort(self._states, state, key=_order)
        else:
            self._states.append(state)

    def put_back(self, state: RequestState) -> None:
        self.add(state)

    def first(self) -> RequestState:
        return self._states[0]

    def pop(self) -> RequestState:
        return self._states.pop(0)

    def remove(self, state: RequestState) -> None:
        del self._states[bisect_left(self._states, state.order, key=_order)]

    def head(self, most: int) -> Iterator[RequestState]:
        return islice(self._states, most)

    def __len__(self) -> int:
        return len(self._states)


def waiting_queue(policy: Policy) -> WaitingQueue:
    return PriorityQueue() if policy == "priority" else ArrivalQueue()
