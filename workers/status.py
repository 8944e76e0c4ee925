"""Where the worker stands, and who wants to know when that changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from control_plane.contracts.errors import DropReason, WorkerLost
from control_plane.contracts.worker import WorkerState

_NEXT = {
    WorkerState.LOADING: {WorkerState.READY, WorkerState.STOPPING, WorkerState.FAILED},
    WorkerState.READY: {WorkerState.DRAINING, WorkerState.ASLEEP, WorkerState.STOPPING, WorkerState.FAILED},
    WorkerState.DRAINING: {WorkerState.READY, WorkerState.ASLEEP, WorkerState.STOPPING, WorkerState.FAILED},
    WorkerState.ASLEEP: {
        WorkerState.WAKING,
        WorkerState.READY,
        WorkerState.DRAINING,
        WorkerState.STOPPING,
        WorkerState.FAILED,
    },
    WorkerState.WAKING: {
        WorkerState.READY,
        WorkerState.DRAINING,
        WorkerState.ASLEEP,
        WorkerState.STOPPING,
        WorkerState.FAILED,
    },
    WorkerState.STOPPING: {WorkerState.FAILED},
}


class WorkerStatus:
    """The worker's state. A move that makes no sense (out of FAILED, back from STOPPING) is not made."""

    def __init__(self) -> None:
        self.state = WorkerState.LOADING
        self.reason = ""
        self.over = False
        self._events: set[asyncio.Event] = set()
        self._listeners: list[Callable[[WorkerState], object]] = []

    def move(self, state: WorkerState, reason: str = "") -> bool:
        """Whether the worker is in ``state`` now."""
        if state is self.state:
            return True
        if state not in _NEXT.get(self.state, ()):
            return False
        self.state, self.reason = state, reason
        for event in self._events:
            event.set()
        for listener in self._listeners:
            listener(state)
        return True

    def unless_failed(self) -> None:
        """Raises WorkerLost once the worker has failed."""
        if self.state is WorkerState.FAILED:
            raise WorkerLost(f"the engine is dead: {self.reason}", reason=DropReason.ENGINE_DEAD)

    def end(self) -> None:
        """Nothing will change any more."""
        self.over = True
        for event in self._events:
            event.set()

    def listen(self, listener: Callable[[WorkerState], object]) -> None:
        self._listeners.append(listener)

    @contextmanager
    def changes(self) -> Iterator[asyncio.Event]:
        """An event that is set at every change; the one who waits clears it."""
        event = asyncio.Event()
        self._events.add(event)
        try:
            yield event
        finally:
            self._events.discard(event)
