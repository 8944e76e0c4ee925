"""One turn that runs: what has been delivered of it, and how it ends in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from control_plane.contracts.conversation import TurnEnd, TurnStatus
from control_plane.contracts.worker import Done
from control_plane.store.journal import JournalFile

SHOW_ANYWAY_S = 2.0
"""How long the end of an answer waits to be stored. After that the client has it, and storing it goes on."""

Then = Callable[[], None]


class Ends(Protocol):
    """Where ends are stored: each returns at once, and ``then`` is called when it is done."""

    def store_end(self, turn_id: str, end: TurnEnd, file: JournalFile, then: Then) -> None: ...

    def store_withdrawal(self, turn_id: str, file: JournalFile, then: Then) -> None: ...


class KeptTurn:
    """Begun: its messages are stored. ``add`` before each piece of text is sent; then ``end`` or ``withdraw``, once.

    ``then`` is called when that is stored, or when waiting for it has taken too long. ``model``: the one that answers,
    where it is another than the turn began with.
    """

    __slots__ = ("_ends", "_file", "_texts", "id", "model")

    def __init__(self, turn_id: str, ends: Ends, file: JournalFile) -> None:
        self.id = turn_id
        self.model = ""
        self._ends = ends
        self._file = file
        self._texts: list[str] = []

    @property
    def delivered(self) -> bool:
        """Whether any text was."""
        return bool(self._texts)

    def add(self, text: str) -> None:
        self._file.add(text)
        self._texts.append(text)

    def end(self, status: TurnStatus, reason: str = "", done: Done | None = None, then: Then | None = None) -> None:
        used = (done.prompt_tokens, done.cached_tokens, done.output_tokens) if done is not None else (0, 0, 0)
        end = TurnEnd(status, "".join(self._texts), reason, *used, self.model)
        self._file.end(end)
        self._ends.store_end(self.id, end, self._file, self._once(then))

    def withdraw(self, then: Then | None = None) -> None:
        """Nothing was done, and the caller is told so."""
        self._file.withdraw()
        self._ends.store_withdrawal(self.id, self._file, self._once(then))

    def _once(self, then: Then | None) -> Then:
        if then is None:
            return lambda: None
        waiting: list[Then] = [then]

        def call() -> None:
            alarm.cancel()
            while waiting:
                waiting.pop()()

        alarm = asyncio.get_running_loop().call_later(SHOW_ANYWAY_S, call)
        return call
