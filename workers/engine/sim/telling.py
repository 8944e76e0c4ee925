"""Which steps are told, and what of the others is told with the next one: so tables that follow stay right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from control_plane.contracts.step import EngineStep, StepFinished, StepRow, TraceMode, TraceState
from workers.engine.sim.block_pool import BlockCounts
from workers.engine.sim.engine_step import engine_step
from workers.engine.sim.scheduled import Scheduled


class _Untold:
    """What a request did in steps that were not told."""

    __slots__ = ("blocks", "joined", "resumed")

    def __init__(self) -> None:
        self.blocks: list[int] = []
        self.joined = False
        self.resumed = False


class Telling:
    """FULL from the start, as vLLM's trace is."""

    def __init__(self) -> None:
        self.mode = TraceMode.FULL
        self.every = 1
        self._step = 0
        self._dropped = 0
        self._untold: dict[str, _Untold] = {}
        self._finished: list[StepFinished] = []
        self._preempted: list[str] = []

    @property
    def state(self) -> TraceState:
        return TraceState(mode=self.mode, every=self.every, step=self._step, dropped=self._dropped)

    def switch(self, mode: TraceMode, every: int) -> None:
        """From the next step on."""
        if mode is not TraceMode.UNSPECIFIED:
            self.mode, self.every = mode, max(1, every)

    def recent(self, request_id: str) -> bool:
        """Whether its end is still to be told: another request of this name would end with it."""
        return any(finished.request_id == request_id for finished in self._finished)

    def tell(
        self,
        scheduled: Scheduled,
        finished: Sequence[StepFinished],
        counts: BlockCounts,
        *,
        started_unix: float,
        execute_s: float,
        drop: bool = False,
    ) -> EngineStep | None:
        """The step to publish, if it is to be. ``drop``: it was to be told, and is lost."""
        self._step = scheduled.step
        wanted = self.mode is TraceMode.FULL or (self.mode is TraceMode.SAMPLED and scheduled.step % self.every == 0)
        if drop and wanted:
            self._dropped += 1
        if drop or not wanted:
            self._remember(scheduled, finished)
            return None
        step = engine_step(
            scheduled, finished, counts, started_unix=started_unix, execute_s=execute_s, dropped=self._dropped
        )
        if self._untold or self._finished or self._preempted:
            step = self._with_untold(step)
        return step

    def _remember(self, scheduled: Scheduled, finished: Sequence[StepFinished]) -> None:
        untold = self._untold
        for name in scheduled.preempted:
            known = untold.setdefault(name, _Untold())
            known.blocks = []
            if not known.joined:
                self._preempted.append(name)
        for row in scheduled.batch:
            name, joined, resumed, blocks = row[0], row[8], row[9], row[10]
            if not (joined or resumed or blocks):
                continue
            known = untold.setdefault(name, _Untold())
            if joined or resumed:
                known.joined |= joined
                known.resumed |= resumed
                known.blocks = list(blocks)
            else:
                known.blocks += blocks
        for end in finished:
            gone = untold.pop(end.request_id, None)
            if self.mode is not TraceMode.OFF or not (gone is not None and gone.joined):
                self._finished.append(end)

    def _with_untold(self, step: EngineStep) -> EngineStep:
        rows = tuple(
            self._row(row, known) if (known := self._untold.pop(row.request_id, None)) else row for row in step.rows
        )
        # What was put back in this step has nothing any more; what was in an untold one may have come back since.
        for name in step.preempted:
            if (left := self._untold.get(name)) is not None:
                left.blocks = []
        step = replace(
            step,
            rows=rows,
            preempted=(*self._preempted, *step.preempted),
            finished=(*self._finished, *step.finished),
        )
        for end in step.finished:
            self._untold.pop(end.request_id, None)
        self._finished, self._preempted = [], []
        return step

    def _row(self, row: StepRow, known: _Untold) -> StepRow:
        """Joined counts as told once, so a request that joined and came back since has only joined."""
        anew = row.joined or row.resumed
        return replace(
            row,
            joined=row.joined or known.joined,
            resumed=row.resumed or known.resumed,
            new_blocks=row.new_blocks if anew else (*known.blocks, *row.new_blocks),
        )
