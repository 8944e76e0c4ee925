"""Whether the worker's engine sleeps, and its way there and back."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass

from control_plane.contracts.errors import Conflict, InvalidRequest
from control_plane.contracts.sleep import SHALLOW, SLEEP_LEVELS
from control_plane.contracts.worker import WorkerState
from control_plane.tasks import Works
from workers.calls import CallTable
from workers.engine.base import Engine, Sleeps
from workers.status import WorkerStatus

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Slept:
    """What came of it. Field names equal those of ``SleepResponse`` and ``WakeResponse``."""

    changed: bool
    took_s: float = 0.0


class Sleeper:
    """``level`` is 0 while the worker is awake: from the moment at which it refuses calls it is that of the sleep.

    What has begun goes on to its end, also when whoever asked for it is gone. A worker whose engine could not go there
    or back has failed: see ``Sleeps``.
    """

    def __init__(self, worker_id: str, engine: Engine, status: WorkerStatus, calls: CallTable) -> None:
        self.level = 0
        self._worker_id = worker_id
        self._engine = engine
        self._status = status
        self._calls = calls
        self._before = WorkerState.READY
        self._one_at_a_time = asyncio.Lock()
        self._works = Works()

    async def sleep(self, level: int, *, check: bool = False) -> Slept:
        """Refuse calls and sleep; ``check`` changes nothing. Raises Conflict where the engine can't, while requests
        run and where it sleeps otherwise, InvalidRequest for another level than 1 or 2 (0: 1)."""
        return await self._works.finish(self._sleep(level or SHALLOW, check), "sleep")

    async def wake(self) -> Slept:
        """Take calls again, or refuse them as before. Raises Conflict where the engine can't."""
        return await self._works.finish(self._wake(), "wake")

    async def _sleep(self, level: int, check: bool) -> Slept:
        engine, status = self._able(), self._status
        if level not in SLEEP_LEVELS:
            raise InvalidRequest(f"there is no level {level} of sleep: 1 keeps the weights, 2 does not", param="level")
        async with self._one_at_a_time:
            self._status.unless_failed()
            if self.level == level:
                return Slept(False)
            if self.level:
                raise Conflict(
                    f"the worker sleeps at level {self.level}", param="level", hint=f"inferdeck wake {self._worker_id}"
                )
            if status.state not in (WorkerState.READY, WorkerState.DRAINING):
                raise Conflict(f"the worker is {status.state.name.lower()}")
            self._refuse_while_busy()
            if check:
                return Slept(True)
            began, self._before, self.level = time.monotonic(), status.state, level
            status.move(WorkerState.ASLEEP, f"put to sleep at level {level}")
            try:
                await engine.sleep(level)
            except Conflict:
                self._awake()
                raise
            except Exception as error:
                status.move(WorkerState.FAILED, f"it could not be put to sleep: {error}")
                raise
            took_s = time.monotonic() - began
            _log.info("asleep", extra={"level": level, "took_s": round(took_s, 3)})
            return Slept(True, took_s)

    async def _wake(self) -> Slept:
        engine, status = self._able(), self._status
        async with self._one_at_a_time:
            self._status.unless_failed()
            if not self.level:
                return Slept(False)
            began, level = time.monotonic(), self.level
            if not status.move(WorkerState.WAKING, f"waking from level {level}"):
                raise Conflict(f"the worker is {status.state.name.lower()}")
            try:
                await engine.wake()
            except Conflict:
                status.move(WorkerState.ASLEEP, f"could not be woken from level {level}")
                raise
            except Exception as error:
                status.move(WorkerState.FAILED, f"it could not be woken: {error}")
                raise
            self._awake()
            took_s = time.monotonic() - began
            _log.info("awake", extra={"level": level, "took_s": round(took_s, 3)})
            return Slept(True, took_s)

    def _awake(self) -> None:
        self.level = 0
        self._status.move(self._before)

    def _able(self) -> Sleeps:
        if not isinstance(self._engine, Sleeps):
            raise Conflict(f"the engine of this worker is {self._engine.name}, which cannot sleep")
        if reason := self._engine.no_sleep():
            raise Conflict(reason)
        return self._engine

    def _refuse_while_busy(self) -> None:
        """The engine's own count may have those that came by other services, too; vLLM's has not, and lets these end
        before it sleeps."""
        load = self._engine.load()
        if running := max(len(self._calls), load.running + load.waiting):
            raise Conflict(
                f"{running} {'request runs' if running == 1 else 'requests run'} here, and would be lost",
                hint=f"inferdeck drain {self._worker_id}",
            )
