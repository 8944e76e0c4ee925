"""The KV blocks, by number: who holds them, what is in them, and which goes next.

After ``vllm/v1/core/block_pool.py``. vLLM keeps one queue of free blocks: empty ones are put at its front, ones whose
content can still be hit at its end, and it is taken from the front. So the empty ones always come first, and the queue
is a stack of empty blocks followed by a queue of cached ones, least recently used first.
"""

from __future__ import annotations

from typing import NamedTuple

from workers.engine.kv_journal import KvJournal
from workers.engine.sim.block import Block
from workers.engine.sim.idle_queue import IdleQueue
from workers.engine.sim.native import i64, mypyc_attr


class BlockCounts(NamedTuple):
    """``used`` + ``cached_free`` + ``free`` is the whole pool."""

    used: int
    cached_free: int
    free: int


@mypyc_attr(allow_interpreted_subclasses=True)
class BlockPool:
    """Blocks are numbered from 1: vLLM's block 0 is a placeholder that no request gets. ``journal`` hears which keys
    can be found."""

    def __init__(self, total: int, journal: KvJournal | None = None) -> None:
        self.total = total
        self._journal = journal
        # By number, as far as they have been taken.
        self._blocks = [Block(0)]
        # One, or those that requests filled with the same content at once, in that order.
        self._by_key: dict[int, Block | dict[Block, None]] = {}
        # A stack of numbers. Below it are those of blocks that nobody has had yet, the lowest on top.
        self._empty: list[int] = []
        self._idle = IdleQueue(self._blocks)

    def available(self) -> int:
        """Blocks that can be taken now; the content of some would be lost."""
        return self._free() + len(self._idle)

    def counts(self) -> BlockCounts:
        free, idle = self._free(), len(self._idle)
        return BlockCounts(self.total - free - idle, idle, free)

    def references(self, block: int) -> int:
        return self._blocks[block].references

    def shared(self) -> list[tuple[int, int]]:
        """(block, references) of blocks in more than one table, by number."""
        return [(block.number, block.references) for block in self._blocks if block.references > 1]

    def idle(self) -> tuple[int, ...]:
        """Free blocks with content, the next to lose it first."""
        return tuple(self._idle.numbers())

    def find(self, keys: list[int], most: int) -> list[int]:
        """The blocks that hold the longest known prefix of ``keys``, ``most`` at most."""
        found: list[int] = []
        by_key = self._by_key
        for index in range(min(most, len(keys))):
            block = by_key.get(keys[index])
            if block is None:
                break
            found.append((block if isinstance(block, Block) else next(iter(block))).number)
        return found

    def keys(self) -> frozenset[int]:
        """All that can be found."""
        return frozenset(self._by_key)

    def idle_among(self, blocks: list[int]) -> int:
        idle = 0
        for number in blocks:
            if not self._blocks[number].references:
                idle += 1
        return idle

    def touch(self, blocks: list[int]) -> None:
        """One more request refers to these."""
        for number in blocks:
            block = self._blocks[number]
            if not block.references:
                self._idle.remove(block)
            block.references += 1

    def take(self, count: int) -> list[int]:
        """``count`` blocks for one request; what was in them is forgotten. ``count`` must be available."""
        empty, blocks = self._empty, self._blocks
        taken: list[int] = []
        for _ in range(count):
            if empty:
                block = blocks[empty.pop()]
            elif len(blocks) <= self.total:
                block = Block(len(blocks))
                blocks.append(block)
            else:
                block = self._idle.pop()
                self._forget(block)
            block.references = 1
            taken.append(block.number)
        return taken

    def fill(self, number: int, key: int) -> None:
        """The block is full, and can be found by its content from now on. A second one with the same content too."""
        block = self._blocks[number]
        block.key = key
        first = self._by_key.setdefault(key, block)
        if first is block:
            if self._journal is not None:
                self._journal.stored(key)
        elif isinstance(first, Block):
            self._by_key[key] = {first: None, block: None}
        else:
            first[block] = None

    def release(self, blocks: list[int]) -> None:
        """A request gives its table back. Its last blocks are the first to be taken again."""
        for number in blocks:
            block = self._blocks[number]
            block.references -= 1
            if not block.references and block.key is None:
                self._empty.append(number)
        for number in reversed(blocks):
            block = self._blocks[number]
            if not block.references and block.key is not None:
                self._idle.add(block)

    def forget_all(self) -> bool:
        """Empty the cache. False, and nothing is done, while any block is used."""
        if self.available() < self.total:
            return False
        self._by_key.clear()
        if self._journal is not None:
            self._journal.cleared()
        fresh = range(len(self._blocks), self.total + 1)
        self._blocks += [Block(number) for number in fresh]
        self._empty = [*reversed(self._idle.numbers()), *reversed(fresh), *self._empty]
        self._idle.clear()
        for block in self._blocks:
            block.key = None
        return True

    def _free(self) -> i64:
        return len(self._empty) + self.total + 1 - len(self._blocks)

    def _forget(self, block: Block) -> None:
        key = block.key
        if key is None:
            return
        block.key = None
        same = self._by_key[key]
        if isinstance(same, dict):
            del same[block]
            if same:
                return
        del self._by_key[key]
        if self._journal is not None:
            self._journal.removed(key)
