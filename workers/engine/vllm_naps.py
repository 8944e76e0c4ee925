"""vLLM's sleep mode, as the engine contract has it (``Sleeps``).

vLLM frees the memory that its allocator took for weights and KV cache, and takes it again at the same addresses. What
was discarded at level 2 is not fetched by itself: the weights are read from their files again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from control_plane.contracts.errors import Conflict, DropReason, WorkerLost, from_reason
from control_plane.contracts.sleep import SLEEP_LEVELS


class Naps:
    """``llm`` is an ``AsyncLLM`` with ``enable_sleep_mode``; ``unfinished`` counts the calls of ours that it has.

    Where vLLM fails on its way to sleep or back, some of its memory may be there and some not, and nobody can tell
    which: ``lost`` hears the cause, and the engine is to serve nothing more. What is refused beforehand harms nothing.
    """

    def __init__(self, llm: Any, unfinished: Callable[[], int], lost: Callable[[str], None]) -> None:
        self.level = 0
        self._llm = llm
        self._unfinished = unfinished
        self._lost = lost
        self._broken = ""

    def refuse(self) -> None:
        """Raises Unavailable while it sleeps: vLLM would keep the call until it wakes."""
        if self.level:
            raise from_reason(DropReason.DRAINING, "the engine sleeps")

    async def sleep(self, level: int) -> None:
        self._unless_broken()
        if level not in SLEEP_LEVELS:
            raise Conflict(f"there is no level {level} of sleep", param="level")
        if self.level:
            raise Conflict(f"the engine sleeps already, at level {self.level}")
        if unfinished := self._unfinished():
            raise Conflict(f"the engine has {unfinished} open calls")
        self.level = level
        try:
            # "wait": what came by another service than ours ends first.
            await self._llm.sleep(level, mode="wait")
        except Exception as error:
            raise self._break(f"vLLM could not fall asleep: {type(error).__name__}: {error}") from error

    async def wake(self) -> None:
        self._unless_broken()
        if not self.level:
            raise Conflict("the engine does not sleep")
        try:
            if self.level == 2:
                await self._llm.wake_up(tags=["weights"])
                await self._llm.collective_rpc("reload_weights")
                await self._llm.wake_up(tags=["kv_cache"])
            else:
                await self._llm.wake_up()
            sleeping = await self._llm.is_sleeping()
        except Exception as error:
            raise self._break(f"vLLM could not wake: {type(error).__name__}: {error}") from error
        if sleeping:
            raise self._break("vLLM was woken, and says that it sleeps")
        self.level = 0

    def _unless_broken(self) -> None:
        if self._broken:
            raise WorkerLost(self._broken, reason=DropReason.ENGINE_DEAD)

    def _break(self, cause: str) -> WorkerLost:
        """It stays asleep for whoever calls, until its end is noticed."""
        self._broken = cause
        self._lost(cause)
        return WorkerLost(cause, reason=DropReason.ENGINE_DEAD)
