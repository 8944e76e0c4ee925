"""What a gateway has delivered of answers that are not in the database yet, in files that outlive it.

Each gateway process has a folder, named after itself, and in it a file for each turn that runs. Text goes into the file
with one ``write`` before it goes to the client: the kernel has it then, and a process that is killed loses none of it.
Nothing is synced: a machine that dies loses what the database did not have.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from control_plane.contracts.conversation import TurnEnd, TurnStatus
from control_plane.contracts.worker_spec import start_ticks

_END: Final = b"\xff"
"""In no UTF-8: after it comes how the turn ended, as JSON."""

_WITHDRAWN: Final = b"null"
"""In the place of how it ended."""

log = logging.getLogger(__name__)


class JournalFile:
    """Of one turn. What cannot be written is told of once; the answer goes on."""

    __slots__ = ("_handle", "_path")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = -1
        try:
            self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            self._give_up(error)

    def add(self, text: str) -> None:
        if self._handle >= 0:
            self._write(text.encode())

    def end(self, end: TurnEnd) -> None:
        """Everything but the text, which is there."""
        if self._handle >= 0:
            facts = asdict(end) | {"text": ""}
            self._write(_END + json.dumps(facts).encode())

    def withdraw(self) -> None:
        """The turn is to be as if it had never begun."""
        if self._handle >= 0:
            self._write(_END + _WITHDRAWN)

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def remove(self) -> None:
        """The database has it."""
        self.close()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._handle, data) :]
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        log.error("a journal cannot be written: %s", type(error).__name__, extra={"turn_id": self._path.name})
        self.close()


class Journal:
    """A gateway's folder. ``owner`` is what its turns are told by."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.owner = folder.name

    @classmethod
    def open(cls, journals: Path, gateway_id: str) -> Journal:
        """A folder for this process, which names it and no other."""
        pid = os.getpid()
        folder = journals / f"{gateway_id}.{pid}.{start_ticks(pid)}.{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700, parents=True)
        return cls(folder)

    def file(self, turn_id: str) -> JournalFile:
        return JournalFile(self._folder / turn_id)

    def kept(self) -> Iterator[tuple[str, TurnEnd | None]]:
        """Each turn that is there, and how it ended: by itself, or with its gateway; None where it was withdrawn. What
        another process has brought into the store meanwhile is passed over."""
        paths: list[Path] = []
        with contextlib.suppress(FileNotFoundError):
            paths = sorted(self._folder.iterdir())
        for path in paths:
            try:
                end = _read(path)
            except FileNotFoundError:
                continue
            yield path.name, end

    def forget(self, turn_id: str) -> None:
        with contextlib.suppress(OSError):
            (self._folder / turn_id).unlink()

    def close(self) -> None:
        """Take the folder away, unless something is in it."""
        with contextlib.suppress(OSError):
            self._folder.rmdir()


def dead_journals(journals: Path) -> list[Journal]:
    """Those whose process is no more."""
    found = []
    for folder in sorted(journals.iterdir()) if journals.is_dir() else ():
        parts = folder.name.rsplit(".", 3)
        if len(parts) == 4 and parts[1].isdecimal() and parts[2].isdecimal():
            pid, ticks = int(parts[1]), int(parts[2])
            if start_ticks(pid) != ticks:
                found.append(Journal(folder))
    return found


def _read(path: Path) -> TurnEnd | None:
    text, mark, facts = path.read_bytes().partition(_END)
    # A write that was cut may have left half a character, which nobody was sent.
    whole = text.decode("utf-8", "ignore")
    if mark and facts == _WITHDRAWN:
        return None
    if mark:
        with contextlib.suppress(ValueError, TypeError):
            values: dict[str, Any] = json.loads(facts)
            return TurnEnd(**(values | {"text": whole, "status": TurnStatus(values["status"])}))
    return TurnEnd(TurnStatus.FAILED, whole, "gateway_lost")
