"""Threads for template and tokenizer work, so that the event loop never waits for it.

Two lanes: what is short never queues behind what is long. Results of many jobs come back to the loop in one wake-up.
What is so small that the way to a thread and back costs more than the work itself is done on the loop at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from control_plane.contracts.errors import DropReason, Unavailable

T = TypeVar("T")

LONG_CHARACTERS = 32 * 1024
"""Jobs over more text than this take the long lane."""

SMALL_CHARACTERS = 512
"""Jobs on no more text than this are done at once; half a millisecond or less with the tokenizers in use."""

_SLOW_S = 0.005
_LOOPS_SHARE = 0.01
"""A job that was done at once and took longer keeps the next ones off the loop: together they get this share of it."""

_SHORT_WAITING = 2048
_LONG_WAITING = 64


class Job(Generic[T]):
    """Work for a lane. ``run`` is called in its thread, then ``then`` on the loop with what came of it.

    A cancelled job that has not begun is never run; ``then`` of a cancelled job is never called. Both are called
    within ``submit`` where the job is small.
    """

    __slots__ = ("cancelled", "error", "result", "run", "then")

    def __init__(self, run: Callable[[], T], then: Callable[[Job[T]], None]) -> None:
        self.run = run
        self.then = then
        self.result: T | None = None
        self.error: BaseException | None = None
        self.cancelled = False

    def do(self) -> None:
        try:
            self.result = self.run()
        except BaseException as error:
            self.error = error


class _Lane:
    """A thread and what waits for it. ``waiting`` is counted on the loop: put, and not delivered yet."""

    __slots__ = ("limit", "queue", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.waiting = 0
        self.queue: SimpleQueue[Job[Any] | None] = SimpleQueue()


class Lanes:
    """``start`` in the running loop; ``stop`` lets the threads end."""

    def __init__(self) -> None:
        self._short = _Lane(_SHORT_WAITING)
        self._long = _Lane(_LONG_WAITING)
        self._finished: deque[tuple[_Lane, Job[Any]]] = deque()
        self._woken = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: list[threading.Thread] = []
        self._off_loop_until = 0.0

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        for name, lane in (("prompt-short", self._short), ("prompt-long", self._long)):
            thread = threading.Thread(target=self._work, args=(lane, self._loop), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def submit(self, job: Job[Any], characters: int) -> None:
        """Run the job when its turn comes. Raises Unavailable when too many wait."""
        if characters <= SMALL_CHARACTERS and time.monotonic() >= self._off_loop_until:
            self._do_now(job)
            return
        lane = self._long if characters > LONG_CHARACTERS else self._short
        if lane.waiting >= lane.limit:
            raise Unavailable("Too many prompts wait for the tokenizer.", reason=DropReason.OVERLOADED)
        lane.waiting += 1
        lane.queue.put(job)

    def stop(self) -> None:
        """End the threads after what they are at; what still waits is dropped."""
        for lane in (self._short, self._long):
            with contextlib.suppress(Empty):
                while True:
                    lane.queue.get_nowait()
            lane.queue.put(None)
        for thread in self._threads:
            thread.join()

    def _do_now(self, job: Job[Any]) -> None:
        # CPU time: a thread that had to wait for a core has not done more for it.
        before = time.thread_time()
        job.do()
        took = time.thread_time() - before
        if took > _SLOW_S:
            self._off_loop_until = time.monotonic() + took / _LOOPS_SHARE
        job.then(job)

    def _work(self, lane: _Lane, loop: asyncio.AbstractEventLoop) -> None:
        while (job := lane.queue.get()) is not None:
            if not job.cancelled:
                job.do()
            self._finished.append((lane, job))
            if not self._woken:
                self._woken = True
                try:
                    loop.call_soon_threadsafe(self._deliver)
                except RuntimeError:
                    return

    def _deliver(self) -> None:
        # Cleared before the queue is emptied: a job that is added from here on wakes the loop again.
        self._woken = False
        while self._finished:
            lane, job = self._finished.popleft()
            lane.waiting -= 1
            if not job.cancelled:
                job.then(job)
