"""From the hashes of vLLM's own prefix cache to ours, as its events tell of them. Pure; vLLM is not needed.

vLLM names a block by a hash of its own; ours is that of ``contracts/block_hash.py``, which a router makes from a
prompt. What is known of a block is kept while the cache holds it. One that we have no name for (a LoRA's, an image's,
or the child of one) is left out: less is told than there is, never more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from control_plane.contracts.block_hash import chained, root_hash
from control_plane.contracts.kv_events import KvBatch, KvSnapshot
from workers.engine.kv_journal import KvJournal

STORED, REMOVED, CLEARED = 0, 1, 2
"""The first field of an event. STORED: their hashes, the parent's or None, token ids, the cache salt. REMOVED: their
hashes. An event has nothing else, and hashes are vLLM's."""


class KvTranslation:
    """``unnamed`` counts blocks that were left out."""

    def __init__(self) -> None:
        self.unnamed = 0
        self._names: dict[int, int] = {}
        self._journal = KvJournal()

    def batch(self, events: Sequence[Any], block_size: int) -> KvBatch | None:
        """What the events of one step change; None where it is nothing. Raises ValueError or TypeError for what are no
        events."""
        for kind, *fields in events:
            if kind == STORED:
                self._stored(block_size, *fields)
            elif kind == REMOVED:
                for theirs in fields[0]:
                    if (name := self._names.pop(theirs, None)) is not None:
                        self._journal.removed(name)
            elif kind == CLEARED:
                self._names.clear()
                self._journal.cleared()
            else:
                raise ValueError(f"there is no KV event {kind!r}")
        return self._journal.batch()

    def snapshot(self) -> KvSnapshot:
        return self._journal.snapshot()

    def known(self) -> frozenset[int]:
        """vLLM's hashes of the blocks that have a name."""
        return frozenset(self._names)

    def _stored(
        self, block_size: int, hashes: Sequence[int], parent: int | None, tokens: Sequence[int], salt: str
    ) -> None:
        above = root_hash(salt) if parent is None else self._names.get(parent)
        if above is None or len(tokens) != len(hashes) * block_size:
            self.unnamed += len(hashes)
            return
        for theirs, name in zip(hashes, chained(above, tokens, block_size), strict=True):
            if theirs not in self._names:
                self._names[theirs] = name
                self._journal.stored(name)
