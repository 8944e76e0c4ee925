"""What changes in an engine's prefix cache, numbered step by step, and the set that the changes make. Pure."""

from __future__ import annotations

from control_plane.contracts.kv_events import KvBatch, KvEvent, KvSnapshot


class KvJournal:
    """``stored``, ``removed`` and ``cleared`` note changes; ``batch`` closes what came since the last one.

    ``hashes`` are those that can be hit now. What changes nothing is not noted.
    """

    def __init__(self) -> None:
        self.seq = 0
        self.hashes: set[int] = set()
        self._events: list[KvEvent] = []
        self._open: list[int] = []
        self._open_is_stored = True

    def stored(self, name: int) -> None:
        if name not in self.hashes:
            self.hashes.add(name)
            self._note(name, stored=True)

    def removed(self, name: int) -> None:
        if name in self.hashes:
            self.hashes.remove(name)
            self._note(name, stored=False)

    def cleared(self) -> None:
        if self.hashes:
            self._close()
            self.hashes.clear()
            self._events.append(KvEvent(cleared=True))

    def batch(self) -> KvBatch | None:
        """None where nothing has changed."""
        self._close()
        if not self._events:
            return None
        self.seq += 1
        events, self._events = tuple(self._events), []
        return KvBatch(self.seq, events)

    def snapshot(self) -> KvSnapshot:
        """After the last batch. Close one first where something may be open."""
        return KvSnapshot(self.seq, tuple(self.hashes))

    def _note(self, name: int, *, stored: bool) -> None:
        if stored is not self._open_is_stored:
            self._close()
            self._open_is_stored = stored
        self._open.append(name)

    def _close(self) -> None:
        if self._open:
            names = tuple(self._open)
            self._events.append(KvEvent(stored=names) if self._open_is_stored else KvEvent(removed=names))
            self._open = []
