"""Token ids of text that was seen before: a shared system prompt, the earlier turns of a conversation."""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterable


class SegmentCache:
    """The least recently used go when all together are larger than ``limit`` bytes. Used by several threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ids: OrderedDict[str, array[int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """Bytes held, about."""
        return self._size

    def find(self, texts: Iterable[str]) -> dict[str, array[int]]:
        """What is known of the texts."""
        found = {}
        with self._lock:
            for text in texts:
                ids = self._ids.get(text)
                if ids is not None:
                    self._ids.move_to_end(text)
                    found[text] = ids
        return found

    def keep(self, text: str, ids: array[int]) -> None:
        size = _cost(text, ids)
        if size > self._limit // 8:
            return
        with self._lock:
            if text in self._ids:
                return
            self._ids[text] = ids
            self._size += size
            while self._size > self._limit:
                old_text, old_ids = self._ids.popitem(last=False)
                self._size -= _cost(old_text, old_ids)


def _cost(text: str, ids: array[int]) -> int:
    return 256 + len(text) * (1 if text.isascii() else 4) + len(ids) * ids.itemsize
