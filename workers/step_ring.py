"""The last steps of an engine, and the block tables before the oldest of them. Pure: no clock, no I/O.

A place in the ring is the number of steps that came before it since the start, so it stays true when the engine's own
step numbers have gaps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final

from control_plane.contracts.block_tables import BlockTables
from control_plane.contracts.step import BlockSnapshot, EngineStep

CAPACITY: Final = 4096
"""Steps."""

MOST_ROWS: Final = 131_072
"""Rows of all steps together: some 30 MiB. A step of a large batch has hundreds of them."""


class Ground:
    """What the steps after it continue: block tables, and the last step that is in them."""

    def __init__(self, total_blocks: int, block_size: int) -> None:
        self._tables = BlockTables()
        self._last = EngineStep(0, 0.0, total_blocks=total_blocks, free_blocks=total_blocks)
        self._block_size = block_size

    def apply(self, step: EngineStep) -> None:
        self._tables.apply(step)
        self._last = step

    def copy(self) -> Ground:
        other = Ground(0, self._block_size)
        other._tables = BlockTables(BlockSnapshot(self._last.step, tables=self._tables.tables()))
        other._last = self._last
        return other

    def snapshot(self) -> BlockSnapshot:
        """``taken_unix`` is the step's start; which free blocks are cached is not known of the past, only how many."""
        last = self._last
        return BlockSnapshot(
            step=last.step,
            taken_unix=last.started_unix,
            block_size=self._block_size,
            total_blocks=last.total_blocks,
            used_blocks=last.used_blocks,
            cached_free_blocks=last.cached_free_blocks,
            free_blocks=last.free_blocks,
            tables=self._tables.tables(),
            shared=self._tables.shared(),
            waiting=last.waiting,
        )


class StepRing:
    """``capacity`` steps, and of these no more than have ``most_rows`` rows; the newest one always."""

    def __init__(
        self, capacity: int = CAPACITY, *, most_rows: int = MOST_ROWS, total_blocks: int = 0, block_size: int = 0
    ) -> None:
        self._capacity = capacity
        self._most_rows = most_rows
        self._rows = 0
        self._steps: deque[EngineStep] = deque()
        self._ground = Ground(total_blocks, block_size)
        self.end = 0

    @property
    def begin(self) -> int:
        """The place of the oldest step."""
        return self.end - len(self._steps)

    @property
    def first_kept(self) -> int:
        """The number of the oldest step, 0 if there is none."""
        return self._steps[0].step if self._steps else 0

    def extend(self, steps: Sequence[EngineStep]) -> None:
        for step in steps:
            self._steps.append(step)
            self._rows += len(step.rows)
            while len(self._steps) > self._capacity or (self._rows > self._most_rows and len(self._steps) > 1):
                oldest = self._steps.popleft()
                self._rows -= len(oldest.rows)
                self._ground.apply(oldest)
        self.end += len(steps)

    def ground(self) -> Ground:
        """What the oldest step continues, to keep."""
        return self._ground.copy()

    def base(self) -> BlockSnapshot:
        """What the oldest step continues, as it is now."""
        return self._ground.snapshot()

    def at(self, place: int, count: int) -> list[EngineStep]:
        """At most ``count`` steps from a place that is not before ``begin``."""
        skipped = place - self.begin
        if skipped > len(self._steps) // 2:
            # A deque is walked from its near end.
            tail = list(islice(reversed(self._steps), len(self._steps) - skipped))
            tail.reverse()
            return tail[:count]
        return list(islice(self._steps, skipped, skipped + count))

    def piece(self, place: int, count: int, most_rows: int) -> list[EngineStep]:
        """Like ``at``, but no more steps than have ``most_rows`` rows and waiting requests; one at least, if there is
        one."""
        steps, size = self.at(place, count), 0
        for index, step in enumerate(steps):
            size += len(step.rows) + len(step.waiting)
            if size > most_rows and index:
                return steps[:index]
        return steps
