"""Who holds which KV block, followed step by step.

Starts from a snapshot and applies steps, as a watcher receives them: the tables then equal the engine's own after the
same step, as long as no step between was lost. Pure: no clock, no I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from control_plane.contracts.step import BlockSnapshot, BlockTable, EngineStep, SharedBlock, StepRow


class BlockTables:
    def __init__(self, base: BlockSnapshot | None = None) -> None:
        self._tables: dict[str, list[int]] = {}
        self._computed: dict[str, int] = {}
        self.step = 0
        if base is not None:
            self.step = base.step
            for table in base.tables:
                self._tables[table.request_id] = list(table.blocks)
                self._computed[table.request_id] = table.computed

    def apply(self, step: EngineStep) -> tuple[BlockTable, ...]:
        """Steps at or before the tables' own are ignored.

        Returns the tables that the step gave up, each as it was last, in this order: of the preempted; of those whose
        table begins anew, which may hold the same blocks again; of the finished, with what the step still gave them.
        """
        if step.step <= self.step:
            return ()
        self.step = step.step
        released: list[BlockTable] = []
        for request_id in step.preempted:
            self._release(request_id, released)
        for row in step.rows:
            blocks = self._tables.get(row.request_id)
            if blocks is None or _anew(row):
                if blocks is not None:
                    released.append(self._table(row.request_id))
                self._tables[row.request_id] = list(row.new_blocks)
            else:
                blocks.extend(row.new_blocks)
            self._computed[row.request_id] = row.computed + row.tokens
        for finished in step.finished:
            self._release(finished.request_id, released)
        return tuple(released)

    def apply_all(self, steps: Iterable[EngineStep]) -> None:
        for step in steps:
            self.apply(step)

    def blocks(self, request_id: str) -> tuple[int, ...]:
        return tuple(self._tables.get(request_id, ()))

    def tables(self) -> tuple[BlockTable, ...]:
        return tuple(self._table(request_id) for request_id in self._tables)

    def shared(self) -> tuple[SharedBlock, ...]:
        """Blocks in more than one table, by number."""
        seen: set[int] = set()
        shared: set[int] = set()
        for blocks in self._tables.values():
            shared.update(seen.intersection(blocks))
            seen.update(blocks)
        # Few of tens of thousands are shared: only those are counted.
        references = Counter(block for blocks in self._tables.values() for block in shared.intersection(blocks))
        return tuple(SharedBlock(*item) for item in sorted(references.items()))

    def used(self) -> int:
        return len({block for blocks in self._tables.values() for block in blocks})

    def _table(self, request_id: str) -> BlockTable:
        return BlockTable(request_id, tuple(self._tables[request_id]), self._computed[request_id])

    def _release(self, request_id: str, released: list[BlockTable]) -> None:
        if request_id in self._tables:
            released.append(self._table(request_id))
            del self._tables[request_id], self._computed[request_id]


def _anew(row: StepRow) -> bool:
    """As many new blocks as there are: the table is told anew, as it is after a step was lost on the way."""
    return row.joined or row.resumed or (bool(row.new_blocks) and len(row.new_blocks) == row.blocks)
