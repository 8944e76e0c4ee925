"""The worker's end of the step trace: reads what the engine core tells of its steps, and asks it for more.

``vllm_trace`` is the other end.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Any

from control_plane.contracts.errors import Conflict, DropReason, Unavailable, WorkerLost
from control_plane.contracts.step import BlockSnapshot, EngineStep, TraceMode, TraceState
from workers.engine.step_payload import StepDecoder, decode, decode_snapshot
from workers.engine.vllm_scheduler import SNAPSHOT_METHOD, TRACE_METHOD

OnSteps = Callable[[Sequence[EngineStep]], None]

_NOTICE = 2  # fields of the payload that says why there are no steps any more; a step has more
_log = logging.getLogger(__name__)


class Steps:
    """``on_steps`` is called with every step, in the event loop's thread. ``state`` is always current."""

    def __init__(self, on_steps: OnSteps) -> None:
        self.state = TraceState(TraceMode.FULL)
        self._on_steps = on_steps
        self._decoder = StepDecoder()
        self._core: Any = None

    async def open(self, engine_core: Any) -> None:
        """Ask the core how it stands; it answers utility calls from now on."""
        self._core = engine_core
        await self._switch(0, 1)

    def receive(self, payloads: Sequence[bytes]) -> None:
        """What came with the statistics of one step. What cannot be read is lost and counted."""
        steps: list[EngineStep] = []
        known = self.state
        for data in payloads:
            try:
                if (step := self._read(data)) is not None:
                    steps.append(step)
            except Exception:
                _log.exception("a step cannot be read")
                self.state = dataclasses.replace(self.state, dropped=self.state.dropped + 1)
        if steps:
            last = steps[-1]
            self.state = dataclasses.replace(self.state, step=last.step, dropped=max(self.state.dropped, last.dropped))
        if self.state is not known:
            self._on_steps(steps)

    async def set(self, mode: TraceMode, every: int) -> TraceState:
        """UNSPECIFIED changes nothing. Raises Conflict where steps cannot be told, WorkerLost after the end."""
        if self.state.unavailable and mode is not TraceMode.UNSPECIFIED:
            raise Conflict(f"this engine tells no steps: {self.state.unavailable}")
        await self._switch(mode.value, every)
        return self.state

    async def blocks(self) -> BlockSnapshot:
        """Raises Conflict where the engine's inside is not known, WorkerLost after the end."""
        if self.state.unavailable:
            raise Conflict(f"this engine tells no blocks: {self.state.unavailable}")
        return decode_snapshot(await self._ask(SNAPSHOT_METHOD))

    def _read(self, data: bytes) -> EngineStep | None:
        fields = decode(data)
        if len(fields) == _NOTICE:
            dropped, problem = fields
            _log.warning("the engine tells no steps any more", extra={"cause": problem})
            self.state = dataclasses.replace(self.state, mode=TraceMode.OFF, unavailable=problem, dropped=dropped)
            return None
        return self._decoder.step(fields)

    async def _switch(self, mode: int, every: int) -> None:
        now, now_every, step, dropped, problem = await self._ask(TRACE_METHOD, mode, every)
        self.state = TraceState(
            TraceMode(now),
            now_every,
            problem,
            step=max(step, self.state.step),
            dropped=max(dropped, self.state.dropped),
        )

    async def _ask(self, method: str, *arguments: Any) -> Any:
        if self._core is None:
            raise WorkerLost("the engine is not running", reason=DropReason.ENGINE_DEAD)
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            return await self._core.call_utility_async(method, *arguments)
        except EngineDeadError as error:
            raise WorkerLost("the engine is dead", reason=DropReason.ENGINE_DEAD) from error
        except Exception as error:
            raise Unavailable(f"the engine could not answer: {error}") from error
