"""Where the steps of one worker stand: the block tables after its last step. Pure."""

from __future__ import annotations

from control_plane.contracts.block_tables import BlockTables
from control_plane.contracts.step import BlockSnapshot, EngineStep, StepFrame, TraceState


class StepTables:
    def __init__(self) -> None:
        self._tables = BlockTables()
        self._base = BlockSnapshot(step=0)
        self._last: EngineStep | None = None
        self._cached_free: set[int] = set()
        self._trace = TraceState()
        self.begun = False
        """Whether anything was heard yet."""

    @property
    def step(self) -> int:
        """The last step that is in the tables."""
        return self._tables.step

    @property
    def unavailable(self) -> str:
        """Why the engine gives no steps; empty where it does."""
        return self._trace.unavailable

    def add(self, frame: StepFrame) -> None:
        """A base begins anew."""
        self._trace = frame.trace
        self.begun = True
        if frame.base is not None:
            self._base, self._last = frame.base, None
            self._tables = BlockTables(frame.base)
            self._cached_free = set(frame.base.cached_free)
        for step in frame.steps:
            self._apply(step)

    def frame(self) -> StepFrame:
        """All of it, for a reader who begins here."""
        last = self._last
        base = BlockSnapshot(
            step=self._tables.step,
            taken_unix=last.started_unix + last.schedule_s + last.execute_s if last else self._base.taken_unix,
            block_size=self._base.block_size,
            total_blocks=last.total_blocks if last else self._base.total_blocks,
            used_blocks=last.used_blocks if last else self._base.used_blocks,
            cached_free_blocks=last.cached_free_blocks if last else self._base.cached_free_blocks,
            free_blocks=last.free_blocks if last else self._base.free_blocks,
            tables=self._tables.tables(),
            shared=self._tables.shared(),
            cached_free=tuple(sorted(self._cached_free)),
            waiting=last.waiting if last else self._base.waiting,
        )
        return StepFrame(trace=self._trace, base=base)

    def _apply(self, step: EngineStep) -> None:
        """A block whose last owner goes keeps its content, if it was full, until somebody takes it."""
        if step.step <= self._tables.step:
            return
        before = {table.request_id: table for table in self._tables.tables()} if _leaves(step) else {}
        self._tables.apply(step)
        self._last = step
        size = self._base.block_size
        for request_id in (*step.preempted, *(finished.request_id for finished in step.finished)):
            if size and request_id in before:
                table = before[request_id]
                self._cached_free.update(table.blocks[: table.computed // size])
        for row in step.rows:
            self._cached_free.difference_update(row.new_blocks)
        if not step.cached_free_blocks:
            self._cached_free.clear()
        elif before:
            used = {block for table in self._tables.tables() for block in table.blocks}
            self._cached_free -= used


def _leaves(step: EngineStep) -> bool:
    return bool(step.preempted or step.finished)
