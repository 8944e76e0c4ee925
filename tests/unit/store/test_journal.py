"""Journals of gateways that are no more, and their sweep into the store."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import IntegrityError

from control_plane.contracts.conversation import Item, Turn, TurnEnd, TurnStatus
from control_plane.store import Conversations, Database, Turns
from control_plane.store.journal import Journal, JournalFile, dead_journals
from control_plane.store.patience import Patience
from control_plane.store.sweep import sweep

KILLED = """
import os, signal, sys
from pathlib import Path
from control_plane.store.journal import Journal
journal = Journal.open(Path(sys.argv[1]), "g1")
print(journal.owner, flush=True)
sys.stdin.readline()
file = journal.file("turn_1")
for piece in ("de", "livé", "red"):
    file.add(piece)
os.kill(os.getpid(), signal.SIGKILL)
"""


def begin(turns: Turns, number: int, owner: str) -> None:
    item = Item(f"msg_{number}", "user", "hi")
    turns.begin(Turn(f"turn_{number}", "acme", "chat", "m", owner, f"answer_{number}", time.time(), [item], "conv_1"))


def test_what_a_killed_process_delivered_is_stored(database: Database, tmp_path: Path) -> None:
    """HI03: the sweep at a start closes what was left running, with the text that had been sent."""
    conversations, turns = Conversations(database), Turns(database)
    conversations.create("conv_1", "acme", {}, [])
    journals = tmp_path / "journals"
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(journals)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdin is not None
    owner = child.stdout.readline().strip()
    begin(turns, 1, owner)
    begin(turns, 2, owner)
    begin(turns, 3, "somebody else")
    assert sweep(journals, turns, Patience()) == 0
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.wait(60) == -9
    assert sweep(journals, turns, Patience()) == 2
    assert sweep(journals, turns, Patience()) == 0
    assert list(journals.iterdir()) == []
    ends = [(turns.get("acme", f"turn_{n}").status, turns.get("acme", f"turn_{n}").answer.text) for n in (1, 2, 3)]  # type: ignore[union-attr]
    assert ends == [("failed", "delivéred"), ("failed", ""), ("in_progress", "")]


def test_an_end_that_the_store_did_not_take(database: Database, tmp_path: Path) -> None:
    conversations, turns = Conversations(database), Turns(database)
    conversations.create("conv_1", "acme", {}, [])
    journal = Journal.open(tmp_path, "g1")
    begin(turns, 1, journal.owner)
    file = journal.file("turn_1")
    file.add("whole")
    file.end(TurnEnd(TurnStatus.COMPLETED, "whole", "", 3, 1, 2))
    file.close()
    assert dead_journals(tmp_path) == []
    dead = tmp_path / f"g1.{os.getpid()}.1.abcd"
    (tmp_path / journal.owner).rename(dead)
    assert sweep(tmp_path, turns, Patience()) == 1
    kept = turns.get("acme", "turn_1")
    assert (kept.status, kept.prompt_tokens, kept.cached_tokens, kept.output_tokens) == ("completed", 3, 1, 2)


def left(journals: Path, number: int) -> Journal:
    """A dead gateway's journal of one turn."""
    folder = journals / f"g{number}.{os.getpid()}.{number}.abcd"
    folder.mkdir()
    journal = Journal(folder)
    file = journal.file(f"turn_{number}")
    file.add(f"text {number}")
    file.close()
    return journal


def test_what_another_sweep_has_taken_is_passed_over(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Between the looks into the folder of journals, into one of them, and into its file."""
    conversations, turns = Conversations(database), Turns(database)
    conversations.create("conv_1", "acme", {}, [])
    first, second, third = (left(tmp_path, number) for number in (1, 2, 3))
    begin(turns, 3, third.owner)
    first.forget("turn_1")

    def found(journals: Path) -> list[Journal]:
        journals_found = dead_journals(journals)
        first.close()
        return journals_found

    listed = Path.iterdir

    def iterdir(folder: Path) -> Iterator[Path]:
        paths = list(listed(folder))
        if folder.name == second.owner:
            second.forget("turn_2")
        return iter(paths)

    monkeypatch.setattr("control_plane.store.sweep.dead_journals", found)
    monkeypatch.setattr(Path, "iterdir", iterdir)
    assert sweep(tmp_path, turns, Patience()) == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert turns.get("acme", "turn_3").status == "failed"
    assert list(tmp_path.glob("g?.*")) == []


def test_a_journal_that_cannot_be_taken_keeps_no_other(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    conversations, turns = Conversations(database), Turns(database)
    conversations.create("conv_1", "acme", {}, [])
    for number in (1, 2):
        begin(turns, number, left(tmp_path, number).owner)
    ends = Turns.end

    def end(self: Turns, turn_id: str, how: TurnEnd) -> bool:
        if turn_id == "turn_1":
            raise IntegrityError("UPDATE", {}, Exception("SENTINEL"))
        return ends(self, turn_id, how)

    monkeypatch.setattr(Turns, "end", end)
    pruned: list[float] = []
    monkeypatch.setattr(Turns, "prune", lambda self, older: len(pruned.append(older) or pruned))
    assert sweep(tmp_path, turns, Patience()) == 1
    assert len(pruned) == 1
    assert [turns.get("acme", f"turn_{number}").status for number in (1, 2)] == ["in_progress", "failed"]
    assert any(record.message == "a part of the sweep failed: IntegrityError" for record in caplog.records)
    monkeypatch.undo()
    assert sweep(tmp_path, turns, Patience()) == 1
    answer = turns.get("acme", "turn_1").answer
    assert answer is not None
    assert answer.text == "text 1"


def test_a_withdrawal_that_the_store_did_not_take(database: Database, tmp_path: Path) -> None:
    conversations, turns = Conversations(database), Turns(database)
    conversations.create("conv_1", "acme", {}, [])
    folder = tmp_path / f"g1.{os.getpid()}.1.abcd"
    folder.mkdir()
    journal = Journal(folder)
    begin(turns, 1, journal.owner)
    file = journal.file("turn_1")
    file.withdraw()
    file.close()
    assert list(journal.kept()) == [("turn_1", None)]
    assert sweep(tmp_path, turns, Patience()) == 0
    assert conversations.history("acme", "conv_1") == []
    assert list(tmp_path.glob("g?.*")) == []


@given(
    pieces=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=6),
    cut=st.integers(0, 3),
    ended=st.booleans(),
)
def test_a_journal_says_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], cut: int, ended: bool
) -> None:
    """Whole, or cut in the middle of its last write."""
    journal = Journal.open(tmp_path_factory.mktemp("journals"), "g1")
    file = journal.file("turn_1")
    for piece in pieces:
        file.add(piece)
    text = "".join(pieces)
    if ended:
        file.end(TurnEnd(TurnStatus.COMPLETED, text))
        file.close()
        assert list(journal.kept()) == [("turn_1", TurnEnd(TurnStatus.COMPLETED, text))]
        return
    file.close()
    path = next(path for path in journal._folder.iterdir())
    data = path.read_bytes()
    path.write_bytes(data[: max(0, len(data) - cut)])
    [(_, end)] = journal.kept()
    assert end is not None
    assert text.startswith(end.text)
    assert len(text.encode()) - len(end.text.encode()) <= cut + 3
    assert end.status is TurnStatus.FAILED


def test_a_journal_that_cannot_be_written_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal.open(tmp_path, "g1")
    os.rmdir(tmp_path / journal.owner)
    file = journal.file("turn_1")
    file.add("SENTINEL")
    file.end(TurnEnd(TurnStatus.COMPLETED, "SENTINEL"))
    file.remove()
    assert [record.message for record in caplog.records] == ["a journal cannot be written: FileNotFoundError"]
    full = JournalFile(Path("/dev/full"))
    full.add("SENTINEL")
    full.add("SENTINEL")
    assert "SENTINEL" not in caplog.text
    assert len(caplog.records) == 2
