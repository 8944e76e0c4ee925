"""Journals of gateways that are no more, and their sweep into the store."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
