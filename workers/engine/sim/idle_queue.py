"""Blocks that nobody refers to and that still hold something, least recently used first."""

from __future__ import annotations

from workers.engine.sim.block import Block
from workers.engine.sim.native import i64


class IdleQueue:
    """A ring of links through ``blocks``, each of which is at the place of its number. The one at 0 stands between last
    and first, and is never in the queue itself."""

    def __init__(self, blocks: list[Block]) -> None:
        self._blocks = blocks
        self._count: i64 = 0

    def __len__(self) -> int:
        return self._count

    def numbers(self) -> list[int]:
        found: list[int] = []
        at = self._blocks[0].next
        while at:
            found.append(at)
            at = self._blocks[at].next
        return found

    def add(self, block: Block) -> None:
        """At the end; it must not be there."""
        end = self._blocks[0]
        self._blocks[end.previous].next = block.number
        block.previous = end.previous
        block.next = 0
        end.previous = block.number
        self._count += 1

    def remove(self, block: Block) -> None:
        """It must be there."""
        self._blocks[block.previous].next = block.next
        self._blocks[block.next].previous = block.previous
        self._count -= 1

    def pop(self) -> Block:
        """The first; there must be one."""
        block = self._blocks[self._blocks[0].next]
        self.remove(block)
        return block

    def clear(self) -> None:
        self._blocks[0].next = self._blocks[0].previous = 0
        self._count = 0
