"""The last batches of an engine's KV events. Pure: no clock, no I/O.

A place in the ring is the number of batches that came before it: where events were lost, their numbers have gaps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final

from control_plane.contracts.kv_events import KvBatch, size_of

CAPACITY: Final = 4096
"""Batches."""

MOST_HASHES: Final = 262_144
"""Hashes in all batches together: some 15 MiB."""


class KvRing:
    """``capacity`` batches, and of these no more than have ``most_hashes``; the newest one always."""

    def __init__(self, capacity: int = CAPACITY, most_hashes: int = MOST_HASHES) -> None:
        self._capacity = capacity
        self._most_hashes = most_hashes
        self._hashes = 0
        self._batches: deque[KvBatch] = deque()
        self.end = 0

    @property
    def begin(self) -> int:
        """The place of the oldest batch."""
        return self.end - len(self._batches)

    def extend(self, batches: Sequence[KvBatch]) -> None:
        for batch in batches:
            self._batches.append(batch)
            self._hashes += size_of(batch)
            while len(self._batches) > self._capacity or (self._hashes > self._most_hashes and len(self._batches) > 1):
                self._hashes -= size_of(self._batches.popleft())
        self.end += len(batches)

    def place_of(self, seq: int) -> int | None:
        """Where to go on to hear batch ``seq``: where it is, or the end where it is the next. None: it is not here."""
        if not self._batches:
            return self.end if seq == 1 else None
        if seq == self._batches[-1].seq + 1:
            return self.end
        for back, batch in enumerate(reversed(self._batches), 1):
            if batch.seq <= seq:
                return self.end - back if batch.seq == seq else None
        return None

    def piece(self, place: int, most_hashes: int) -> list[KvBatch]:
        """Batches from a place that is not before ``begin``, no more than have ``most_hashes``; one at least, if there
        is one."""
        found: list[KvBatch] = []
        size = 0
        for batch in islice(self._batches, place - self.begin, None):
            size += size_of(batch)
            if size > most_hashes and found:
                break
            found.append(batch)
        return found
