"""How many free blocks still have content, kept up to date as vLLM's block pool moves them.

vLLM counts its free blocks, but not which of them can still be hit; to look at each of them at every step would cost
more than the step's scheduling. So the pool's own queue and pool are made to count what passes: a block enters or
leaves the queue, or loses its content while it lies there.
"""

from __future__ import annotations

from typing import Any


class _CountingQueue:
    """Over ``FreeKVCacheBlockQueue``: ``cached`` blocks in it have content."""

    cached = 0

    def popleft(self) -> Any:
        block = super().popleft()  # type: ignore[misc]
        self.cached -= block.block_hash is not None
        return block

    def popleft_n(self, n: int) -> Any:
        blocks = super().popleft_n(n)  # type: ignore[misc]
        self.cached -= _with_content(blocks)
        return blocks

    def remove(self, block: Any) -> None:
        super().remove(block)  # type: ignore[misc]
        self.cached -= block.block_hash is not None

    def append(self, block: Any) -> None:
        super().append(block)  # type: ignore[misc]
        self.cached += block.block_hash is not None

    def append_n(self, blocks: Any) -> None:
        super().append_n(blocks)  # type: ignore[misc]
        self.cached += _with_content(blocks)

    def prepend_n(self, blocks: Any) -> None:
        super().prepend_n(blocks)  # type: ignore[misc]
        self.cached += _with_content(blocks)


class _CountingPool:
    """Over ``BlockPool``. A block that lies in the free queue has a neighbour before it."""

    free_block_queue: Any

    def _remove_cached_block_hashes(self, block: Any) -> Any:
        if block.prev_free_block is not None and block.block_hash is not None:
            self.free_block_queue.cached -= 1
        return super()._remove_cached_block_hashes(block)  # type: ignore[misc]

    def _insert_block_hash(self, block_hash_with_group_id: Any, block: Any, *args: Any, **kwargs: Any) -> None:
        empty = block.block_hash is None
        super()._insert_block_hash(block_hash_with_group_id, block, *args, **kwargs)  # type: ignore[misc]
        if empty and block.prev_free_block is not None and block.block_hash is not None:
            self.free_block_queue.cached += 1

    def reset_prefix_cache(self) -> Any:
        done = super().reset_prefix_cache()  # type: ignore[misc]
        if done:
            self.free_block_queue.cached = 0
        return done


def count_cached_free(pool: Any) -> Any:
    """Make the pool count from now on; returns its free queue, whose ``cached`` is the figure."""
    queue = pool.free_block_queue
    queue.cached = _with_content(queue.get_all_free_blocks())
    queue.__class__ = type("CountingQueue", (_CountingQueue, type(queue)), {})
    pool.__class__ = type("CountingPool", (_CountingPool, type(pool)), {})
    return queue


def _with_content(blocks: Any) -> int:
    return sum(block.block_hash is not None for block in blocks)
