"""The KV blocks, by number: who holds them, what is in them, and which goes next.

After ``vllm/v1/core/block_pool.py``. vLLM keeps one queue of free blocks: empty ones are put at its front, ones whose
content can still be hit at its end, and it is taken from the front. So the empty ones always come first, and the queue
is a stack of empty blocks followed by a queue of cached ones, least recently used first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from workers.engine.kv_journal import KvJournal


class BlockCounts(NamedTuple):
    """``used`` + ``cached_free`` + ``free`` is the whole pool."""

    used: int
    cached_free: int
    free: int


class BlockPool:
    """Blocks are numbered from 1: vLLM's block 0 is a placeholder that no request gets. ``journal`` hears which keys
    can be found."""

    def __init__(self, total: int, journal: KvJournal | None = None) -> None:
        self.total = total
        self._journal = journal
        self._references = [0] * (total + 1)
        self._key_of: list[int | None] = [None] * (total + 1)
        # One number, or the numbers in the order they were filled where requests computed the same content at once.
        self._by_key: dict[int, int | dict[int, None]] = {}
        self._empty = list(range(total, 0, -1))
        self._idle: OrderedDict[int, None] = OrderedDict()

    def available(self) -> int:
        """Blocks that can be taken now; the content of some would be lost."""
        return len(self._empty) + len(self._idle)

    def counts(self) -> BlockCounts:
        free, idle = len(self._empty), len(self._idle)
        return BlockCounts(self.total - free - idle, idle, free)

    def references(self, block: int) -> int:
        return self._references[block]

    def shared(self) -> list[tuple[int, int]]:
        """(block, references) of blocks in more than one table, by number."""
        return [(block, count) for block, count in enumerate(self._references) if count > 1]

    def idle(self) -> tuple[int, ...]:
        """Free blocks with content, the next to lose it first."""
        return tuple(self._idle)

    def find(self, keys: Sequence[int], most: int) -> list[int]:
        """The blocks that hold the longest known prefix of ``keys``, ``most`` at most."""
        found: list[int] = []
        by_key = self._by_key
        for index in range(min(most, len(keys))):
            block = by_key.get(keys[index])
            if block is None:
                break
            found.append(block if isinstance(block, int) else next(iter(block)))
        return found

    def keys(self) -> frozenset[int]:
        """All that can be found."""
        return frozenset(self._by_key)

    def idle_among(self, blocks: Sequence[int]) -> int:
        references = self._references
        return sum(not references[block] for block in blocks)

    def touch(self, blocks: Sequence[int]) -> None:
        """One more request refers to these."""
        references = self._references
        for block in blocks:
            if not references[block]:
                del self._idle[block]
            references[block] += 1

    def take(self, count: int) -> list[int]:
        """``count`` blocks for one request; what was in them is forgotten. ``count`` must be available."""
        empty = self._empty
        taken = []
        for _ in range(count):
            if empty:
                block = empty.pop()
            else:
                block, _none = self._idle.popitem(last=False)
                self._forget(block)
            self._references[block] = 1
            taken.append(block)
        return taken

    def fill(self, block: int, key: int) -> None:
        """The block is full, and can be found by its content from now on. A second one with the same content too."""
        self._key_of[block] = key
        other = self._by_key.get(key)
        if other is None:
            self._by_key[key] = block
            if self._journal is not None:
                self._journal.stored(key)
        elif isinstance(other, int):
            self._by_key[key] = {other: None, block: None}
        else:
            other[block] = None

    def release(self, blocks: Sequence[int]) -> None:
        """A request gives its table back. Its last blocks are the first to be taken again."""
        references, key_of = self._references, self._key_of
        for block in blocks:
            references[block] -= 1
            if not references[block] and key_of[block] is None:
                self._empty.append(block)
        for block in reversed(blocks):
            if not references[block] and key_of[block] is not None:
                self._idle[block] = None

    def forget_all(self) -> bool:
        """Empty the cache. False, and nothing is done, while any block is used."""
        if self.available() < self.total:
            return False
        self._by_key.clear()
        if self._journal is not None:
            self._journal.cleared()
        self._key_of = [None] * (self.total + 1)
        self._empty[:0] = reversed(self._idle)
        self._idle.clear()
        return True

    def _forget(self, block: int) -> None:
        key = self._key_of[block]
        if key is None:
            return
        self._key_of[block] = None
        same = self._by_key[key]
        if isinstance(same, dict):
            del same[block]
            if same:
                return
        del self._by_key[key]
        if self._journal is not None:
            self._journal.removed(key)
