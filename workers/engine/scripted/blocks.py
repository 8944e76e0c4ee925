"""The KV blocks of the scripted engine: how many are used, and which prefixes they hold.

A block is used while a sequence refers to it. A full block keeps its content when the last reference goes, until it
is the least recently used one and room is needed. Nothing is stored but counts and hashes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class Block:
    __slots__ = ("key", "references")

    def __init__(self) -> None:
        self.key: int | None = None
        self.references = 1


class BlockPool:
    def __init__(self, total: int, block_size: int) -> None:
        self.total = total
        self.block_size = block_size
        self._blank = total
        self._by_key: dict[int, Block] = {}
        self._idle: OrderedDict[int, Block] = OrderedDict()

    @property
    def used(self) -> int:
        return self.total - self._blank - len(self._idle)

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def keys(self, tokens: Sequence[int], salt: str) -> list[int]:
        """One chained hash per full block of ``tokens``."""
        key, size, keys = hash(salt), self.block_size, []
        for start in range(0, len(tokens) - size + 1, size):
            key = hash((key, tuple(tokens[start : start + size])))
            keys.append(key)
        return keys

    def holds(self, key: int) -> bool:
        """Whether a block with this content is still there."""
        return key in self._by_key

    def take(self, keys: Sequence[int], tokens: int) -> tuple[list[Block], int] | None:
        """Blocks for ``tokens`` tokens, and how many of them were cached; None if there is no room.

        The last token is always computed, so a fully cached prompt still leaves one block to do.
        """
        hits: list[Block] = []
        for key in keys[: (tokens - 1) // self.block_size]:
            block = self._by_key.get(key)
            if block is None:
                break
            hits.append(block)
        idle_hits = sum(not block.references for block in hits)
        needed = self.blocks_for(tokens) - len(hits)
        if needed > self._blank + len(self._idle) - idle_hits:
            return None
        for block in hits:
            if not block.references and block.key is not None:
                del self._idle[block.key]
            block.references += 1
        blocks = hits + [self._fresh() for _ in range(needed)]
        for block, key in zip(blocks[len(hits) :], keys[len(hits) :], strict=False):
            self.fill(block, key)
        return blocks, len(hits)

    def grow(self) -> Block | None:
        """One more block, or None if all are used."""
        return self._fresh() if self._blank or self._idle else None

    def fill(self, block: Block, key: int) -> None:
        """The block is full now and can be found by its key; the first block with a key keeps it."""
        if key not in self._by_key:
            block.key = key
            self._by_key[key] = block

    def release(self, blocks: Sequence[Block]) -> None:
        """Give back one reference each; the end of a prefix is forgotten before its beginning."""
        for block in reversed(blocks):
            block.references -= 1
            if not block.references:
                if block.key is None:
                    self._blank += 1
                else:
                    self._idle[block.key] = block

    def forget_all(self) -> None:
        """What is in blocks that nobody uses."""
        for key in self._idle:
            del self._by_key[key]
        self._blank += len(self._idle)
        self._idle.clear()

    def _fresh(self) -> Block:
        if self._blank:
            self._blank -= 1
        else:
            key, _ = self._idle.popitem(last=False)
            del self._by_key[key]
        return Block()
