"""Who holds which KV block, and which free ones still have content, followed step by step.

``BlockTables`` keeps the tables. Which blocks are cached-free is told by snapshots only; between them it follows from
what requests gave back: vLLM keeps the content of every full block until the block is taken anew
(``v1/core/block_pool.py``). Each step's own counts say whether that still holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from control_plane.contracts.block_tables import BlockTables
from control_plane.contracts.step import BlockSnapshot, BlockTable, EngineStep


class KvLedger:
    def __init__(self, base: BlockSnapshot) -> None:
        self._block_size = base.block_size
        self._tables = BlockTables(base)
        self._computed = {table.request_id: table.computed for table in base.tables}
        self._references = Counter(block for table in base.tables for block in table.blocks)
        self._cached_free = set(base.cached_free)
        self._counts = (base.used_blocks, base.cached_free_blocks, base.total_blocks)

    @property
    def step(self) -> int:
        """The last one that was applied."""
        return self._tables.step

    @property
    def block_size(self) -> int:
        """Tokens, 0 while unknown."""
        return self._block_size

    @property
    def references(self) -> Mapping[int, int]:
        """How many requests hold each block that is used."""
        return self._references

    @property
    def complete(self) -> bool:
        """Whether the tables hold as many blocks as the engine says are used."""
        return len(self._references) == self._counts[0]

    @property
    def cached_free(self) -> frozenset[int] | None:
        """Free blocks whose content can still be hit; None when it is known only how many they are."""
        return frozenset(self._cached_free) if len(self._cached_free) == self._counts[1] else None

    def tables(self) -> tuple[BlockTable, ...]:
        return self._tables.tables()

    def snapshot(self) -> BlockSnapshot:
        """All of it, to go on from later."""
        used, cached, total = self._counts
        return BlockSnapshot(
            step=self.step,
            block_size=self._block_size,
            total_blocks=total,
            used_blocks=used,
            cached_free_blocks=cached,
            free_blocks=max(0, total - used - cached),
            tables=self.tables(),
            cached_free=tuple(self._cached_free),
        )

    def apply_all(self, steps: Iterable[EngineStep]) -> None:
        for step in steps:
            self.apply(step)

    def apply(self, step: EngineStep) -> None:
        """Steps at or before the ledger's own are ignored."""
        if step.step <= self.step:
            return
        ended = self._held_at_the_end(step)
        for request_id in step.preempted:
            self._release(self._tables.blocks(request_id), self._computed.pop(request_id, 0))
        for row in step.rows:
            if (row.joined or row.resumed) and row.request_id in self._computed:
                self._release(self._tables.blocks(row.request_id), self._computed[row.request_id])
            self._references.update(row.new_blocks)
            self._cached_free.difference_update(row.new_blocks)
            self._computed[row.request_id] = row.computed + row.tokens
        self._tables.apply(step)
        for request_id, blocks in ended.items():
            self._release(blocks, self._computed.pop(request_id, 0))
        if not step.cached_free_blocks:
            self._cached_free.clear()
        self._counts = (step.used_blocks, step.cached_free_blocks, step.total_blocks)

    def _held_at_the_end(self, step: EngineStep) -> dict[str, tuple[int, ...]]:
        """The tables of those that the step finishes, with what it gave them still."""
        rows = {row.request_id: row for row in step.rows} if step.finished else {}
        held = {}
        for finished in step.finished:
            row = rows.get(finished.request_id)
            anew = finished.request_id in step.preempted or (row is not None and (row.joined or row.resumed))
            before = () if anew else self._tables.blocks(finished.request_id)
            held[finished.request_id] = before + (row.new_blocks if row is not None else ())
        return held

    def _release(self, blocks: Sequence[int], computed: int) -> None:
        full = computed // self._block_size if self._block_size else 0
        for index, block in enumerate(blocks):
            self._references[block] -= 1
            if self._references[block] <= 0:
                del self._references[block]
                if index < full:
                    self._cached_free.add(block)
