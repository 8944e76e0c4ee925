"""Makes the calls of a plan and keeps what the stopwatch says."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Final

from console.completion import Answer
from console.home import Unreachable
from console.http import Connections, Endpoint
from console.load.plan import Job, Plan, jobs
from console.load.tally import Tally

FIRST_PAUSE_S: Final = 0.1
MOST_PAUSE_S: Final = 1.0
"""How long a caller of a closed loop waits after a failure, and after many."""


class Run:
    """One run of a plan against an endpoint; ``tally`` can be read while it goes on."""

    def __init__(self, plan: Plan, endpoint: Endpoint, keys: Sequence[str], *, call_timeout_s: float = 600.0) -> None:
        self.plan = plan
        self.tally = Tally()
        self.began = 0.0
        self.ended = 0.0
        self._connections = Connections(endpoint)
        self._keys = keys
        self._call_timeout_s = call_timeout_s
        self._finishing = asyncio.Event()

    @property
    def elapsed_s(self) -> float:
        return (self.ended or time.monotonic()) - self.began if self.began else 0.0

    async def go(self) -> None:
        """Return when every call has ended. Cancelled, it drops those that run and still leaves a sound tally."""
        self.began = time.monotonic()
        try:
            await (self._open() if self.plan.rate else self._closed())
        finally:
            self.ended = time.monotonic()
            self._connections.close()

    def finish(self) -> None:
        """Start no further call; ``go`` returns when those that run have ended."""
        self._finishing.set()

    async def _closed(self) -> None:
        calls = jobs(self.plan)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self.plan.concurrency, self.plan.requests or self.plan.concurrency)):
                group.create_task(self._caller(calls))

    async def _caller(self, calls: Iterator[Job]) -> None:
        """As it would spin on what refuses at once, a caller waits after a failure, the longer the more follow."""
        pause = 0.0
        while not self._over():
            job = next(calls, None)
            if job is None:
                return
            if await self._call(job):
                pause = 0.0
                continue
            pause = min(2 * pause, MOST_PAUSE_S) or FIRST_PAUSE_S
            left = self.began + self.plan.duration_s - time.monotonic() if self.plan.duration_s else pause
            await self._wait(min(pause, max(0.0, left)))

    async def _open(self) -> None:
        async with asyncio.TaskGroup() as group:
            for job in jobs(self.plan):
                if self.plan.duration_s and job.at_s >= self.plan.duration_s:
                    return
                planned = self.began + job.at_s
                if (pause := planned - time.monotonic()) > 0:
                    await self._wait(pause)
                if self._finishing.is_set():
                    return
                self.tally.late.values.append(max(0.0, time.monotonic() - planned))
                group.create_task(self._call(job))

    async def _wait(self, seconds: float) -> None:
        """Less where no further call is to start."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._finishing.wait(), seconds)

    def _over(self) -> bool:
        if self._finishing.is_set():
            return True
        return bool(self.plan.duration_s) and time.monotonic() - self.began >= self.plan.duration_s

    async def _call(self, job: Job) -> bool:
        """Whether it did not fail."""
        tally, stream = self.tally, self.plan.stream
        left = asyncio.Event()
        last = 0.0
        pieces = 0

        def heard(_: str, at: float) -> None:
            nonlocal last, pieces
            if last:
                tally.itl.values.append(at - last)
            last = at
            pieces += 1
            tally.chunks += 1
            if job.leave_after is not None and pieces >= job.leave_after:
                left.set()

        answer = Answer(heard if stream else None)
        tally.started += 1
        tally.running += 1
        try:
            async with asyncio.timeout(self._call_timeout_s):
                call = answer.run(self._connections, job.path, self._keys[job.key], job.body)
                if job.leave_after is None:
                    await call
                else:
                    await _until(call, left, None if stream else job.leave_after / 100)
        except Unreachable as error:
            tally.unreachable(job.key, error.message)
            return False
        except TimeoutError:
            answer.error_code, answer.error_message = "timeout", f"no end after {self._call_timeout_s:g} s"
        finally:
            tally.running -= 1
        left_early = job.leave_after is not None and not answer.done and not answer.error_code
        tally.add(answer, key=job.key, stream=stream, left=left_early)
        return left_early or answer.ok


async def _until(call: Coroutine[Any, Any, None], left: asyncio.Event, after_s: float | None) -> None:
    """Make the call until the client leaves: after some text, or after a while."""
    task = asyncio.create_task(call)
    leaving = asyncio.create_task(left.wait())
    try:
        await asyncio.wait((task, leaving), timeout=after_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not task.done():
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
