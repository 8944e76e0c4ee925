"""Who holds which KV block, and which free ones still have content, followed step by step. Pure.

``BlockTables`` keeps the tables. Which blocks are cached-free is told by snapshots only; between them it follows from
what requests gave back: vLLM keeps the content of every full block until the block is taken anew
(``v1/core/block_pool.py``). Each step's own counts say whether that still holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from control_plane.contracts.block_tables import BlockTables
from control_plane.contracts.step import BlockSnapshot, BlockTable, EngineStep, SharedBlock


class KvLedger:
    def __init__(self, base: BlockSnapshot) -> None:
        self._state = base  # but for tables, shared and cached_free
        self._tables = BlockTables(base)
        self._references = Counter(block for table in base.tables for block in table.blocks)
        self._cached_free = set(base.cached_free)

    @property
    def step(self) -> int:
        """The last one that was applied."""
        return self._tables.step

    @property
    def block_size(self) -> int:
        """Tokens, 0 while unknown."""
        return self._state.block_size

    @property
    def references(self) -> Mapping[int, int]:
        """How many requests hold each block that is used."""
        return self._references

    @property
    def complete(self) -> bool:
        """Whether the tables hold as many blocks as the engine says are used."""
        return len(self._references) == self._state.used_blocks

    @property
    def cached_free(self) -> frozenset[int] | None:
        """Free blocks whose content can still be hit; None when it is known only how many they are."""
        return frozenset(self._cached_free) if len(self._cached_free) == self._state.cached_free_blocks else None

    def tables(self) -> tuple[BlockTable, ...]:
        return self._tables.tables()

    def snapshot(self) -> BlockSnapshot:
        """All of it, to go on from later. ``cached_free`` is what is known, by number."""
        return replace(
            self._state,
            tables=self.tables(),
            shared=tuple(SharedBlock(block, count) for block, count in sorted(self._references.items()) if count > 1),
            cached_free=tuple(sorted(self._cached_free)),
        )

    def apply_all(self, steps: Iterable[EngineStep]) -> None:
        for step in steps:
            self.apply(step)

    def apply(self, step: EngineStep) -> None:
        """Steps at or before the ledger's own are ignored."""
        if step.step <= self.step:
            return
        released = self._tables.apply(step)
        # Taken before given back: a block that goes from one table to another is never free between.
        for row in step.rows:
            self._references.update(row.new_blocks)
            self._cached_free.difference_update(row.new_blocks)
        for table in released:
            self._release(table)
        if not step.cached_free_blocks:
            self._cached_free.clear()
        self._state = BlockSnapshot(
            step=step.step,
            taken_unix=step.started_unix + step.schedule_s + step.execute_s,
            block_size=self._state.block_size,
            total_blocks=step.total_blocks,
            used_blocks=step.used_blocks,
            cached_free_blocks=step.cached_free_blocks,
            free_blocks=step.free_blocks,
            waiting=step.waiting,
        )

    def _release(self, table: BlockTable) -> None:
        full = table.computed // self.block_size if self.block_size else 0
        for index, block in enumerate(table.blocks):
            self._references[block] -= 1
            if self._references[block] <= 0:
                del self._references[block]
                if index < full:
                    self._cached_free.add(block)
