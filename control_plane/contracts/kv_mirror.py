"""What a watcher knows of a worker's set of cached blocks, made from the frames it sends. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Protocol

from control_plane.contracts.kv_events import KvBatch, KvFrame, KvSnapshot


class Names(Protocol):
    """Who is told of the set, change by change."""

    def stored(self, names: Iterable[int]) -> None: ...

    def removed(self, names: Iterable[int]) -> None:
        """They may not have been there."""
        ...

    def replaced(self, names: Set[int]) -> None:
        """These are all there are."""
        ...

    def forgotten(self) -> None:
        """Nothing is known, not even that there are none."""
        ...


class NameSet(set[int]):
    """``Names`` as a set."""

    def stored(self, names: Iterable[int]) -> None:
        self.update(names)

    def removed(self, names: Iterable[int]) -> None:
        self.difference_update(names)

    def replaced(self, names: Set[int]) -> None:
        self.clear()
        self.update(names)

    def forgotten(self) -> None:
        self.clear()


class KvMirror:
    """``hashes`` can be hit on instance ``instance_id`` after batch ``seq``, as far as has been told.

    Watch with ``ask()``, ``apply`` every frame, and watch anew where it says so. ``gaps`` counts batches that were
    missing, ``lost`` those that the worker said this watcher was too slow for. With ``names`` these are told, and
    ``hashes`` stays empty.
    """

    def __init__(self, names: Names | None = None) -> None:
        self.instance_id = ""
        self.seq = 0
        self.hashes = NameSet()
        self.unavailable = ""
        self.gaps = 0
        self.lost = 0
        self._names: Names = self.hashes if names is None else names
        self._said_lost = 0
        self._pieces: set[int] | None = None

    def ask(self) -> tuple[int, str]:
        """``from_seq`` and ``instance_id`` of the next watch. 0 where only a snapshot helps. What the last watch left
        unfinished is forgotten."""
        self._pieces = None
        self._said_lost = 0
        return (self.seq + 1 if self.seq else 0), self.instance_id

    def apply(self, frame: KvFrame) -> bool:
        """False where a batch is missing: watch anew. Until then the set is that of before the gap."""
        if frame.instance_id != self.instance_id:
            self._begin(frame.instance_id)
        self.unavailable = frame.unavailable
        if frame.unavailable:
            self._begin(frame.instance_id)
            return True
        self.lost += max(0, frame.lost - self._said_lost)
        self._said_lost = frame.lost
        if frame.snapshot is not None:
            self._take(frame.snapshot)
        return all(self._follow(batch) for batch in frame.batches)

    def _begin(self, instance_id: str) -> None:
        """A new instance has an empty cache."""
        self.instance_id = instance_id
        self.seq = 0
        self._names.forgotten()
        self._pieces = None

    def _take(self, snapshot: KvSnapshot) -> None:
        pieces = self._pieces if self._pieces is not None else set()
        pieces.update(snapshot.hashes)
        if snapshot.more:
            self._pieces = pieces
            return
        self._names.replaced(pieces)
        self.seq, self._pieces = snapshot.seq, None

    def _follow(self, batch: KvBatch) -> bool:
        if batch.seq <= self.seq:
            return True
        if batch.seq > self.seq + 1:
            self.gaps += batch.seq - self.seq - 1
            return False
        names = self._names
        for event in batch.events:
            if event.cleared:
                names.replaced(frozenset())
            if event.removed:
                names.removed(event.removed)
            if event.stored:
                names.stored(event.stored)
        self.seq = batch.seq
        return True
