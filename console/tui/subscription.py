"""Background work that goes on as long as one reader wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.worker import Worker

Work = Callable[[], Any]


class Subscription:
    """One at a time: another reader, or another ``target``, begins anew. ``start`` runs the work."""

    def __init__(self, start: Callable[[Work], Worker[None]]) -> None:
        self.target = ""
        self.running: Worker[None] | None = None
        self._start = start
        self._reader: object | None = None

    def want(self, target: str, reader: object | None, work: Work | None) -> None:
        """``reader`` is there for ``target`` from now on; without ``work`` nothing goes on."""
        if self.target == target and self._reader is reader:
            return
        if self.running is not None:
            self.running.cancel()
        self.target, self._reader = target, reader
        self.running = self._start(work) if work is not None else None
