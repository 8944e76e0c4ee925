"""Reading on in a recording: what became known up to a time, each entry once. Pure but for the file."""

from __future__ import annotations

from collections.abc import Iterator

from console.record.recording import Entry


class Cursor:
    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = entries
        self._next = next(entries, None)

    def until(self, unix: float) -> Iterator[Entry]:
        """The entries at or before this time that were not given yet."""
        while self._next is not None and self._next.unix <= unix:
            entry, self._next = self._next, next(self._entries, None)
            yield entry
