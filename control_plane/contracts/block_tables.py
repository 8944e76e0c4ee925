"""Who holds which KV block, followed step by step.

Starts from a snapshot and applies steps, as a watcher receives them: the tables then equal the engine's own after the
same step, as long as no step between was lost. Pure: no clock, no I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from control_plane.contracts.step import BlockSnapshot, BlockTable, EngineStep, SharedBlock


class BlockTables:
    def __init__(self, base: BlockSnapshot | None = None) -> None:
        self._tables: dict[str, list[int]] = {}
        self._computed: dict[str, int] = {}
        self.step = 0
        self._last = base or BlockSnapshot(step=0)
        if base is not None:
            self.step = base.step
            for table in base.tables:
                self._tables[table.request_id] = list(table.blocks)
                self._computed[table.request_id] = table.computed

    def apply(self, step: EngineStep) -> None:
        """Steps at or before the tables' own are ignored."""
        if step.step <= self.step:
            return
        self.step = step.step
        for request_id in step.preempted:
            self._forget(request_id)
        for row in step.rows:
            # As many new blocks as there are: the table is told anew, as it is after a step was lost on the way.
            if (
                row.joined
                or row.resumed
                or row.request_id not in self._tables
                or (row.new_blocks and len(row.new_blocks) == row.blocks)
            ):
                self._tables[row.request_id] = list(row.new_blocks)
            else:
                self._tables[row.request_id].extend(row.new_blocks)
            self._computed[row.request_id] = row.computed + row.tokens
        for finished in step.finished:
            self._forget(finished.request_id)

    def apply_all(self, steps: Iterable[EngineStep]) -> None:
        for step in steps:
            self.apply(step)

    def blocks(self, request_id: str) -> tuple[int, ...]:
        return tuple(self._tables.get(request_id, ()))

    def tables(self) -> tuple[BlockTable, ...]:
        return tuple(
            BlockTable(request_id, tuple(blocks), self._computed[request_id])
            for request_id, blocks in self._tables.items()
        )

    def shared(self) -> tuple[SharedBlock, ...]:
        """Blocks in more than one table, by number."""
        references = Counter(block for blocks in self._tables.values() for block in blocks)
        return tuple(SharedBlock(block, count) for block, count in sorted(references.items()) if count > 1)

    def used(self) -> int:
        return len({block for blocks in self._tables.values() for block in blocks})

    def _forget(self, request_id: str) -> None:
        self._tables.pop(request_id, None)
        self._computed.pop(request_id, None)
