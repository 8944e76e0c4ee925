"""A lesson in a real terminal, seen from its other end: however it ends, the terminal is as it was."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.console.tui.test_terminal import HIDDEN, SHOWN, Terminal, in_terminal

SCRIPT = """
import sys
from pathlib import Path
from console.tui.learn.app import LearnApp
from lessons.loader import load
from lessons.progress import Progress
from tests.snapshots.lesson_stage import LessonStage
from tests.snapshots.memory import MemoryPlatform
platform = MemoryPlatform()
app = LearnApp(LessonStage(), Progress(), platform, platform, load(Path(sys.argv[1])))
left = app.run()
raise SystemExit(app.return_code if left is None else left)
"""


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    folder = Path(__file__).parents[4] / "snapshots" / "lessons" / "12-every-kind"
    with in_terminal(SCRIPT, str(folder)) as made:
        made.until(b"next token")
        yield made


def test_esc_restores_the_terminal(terminal: Terminal) -> None:
    assert SHOWN in terminal.seen
    os.write(terminal.end, b"\x1b")
    assert terminal.ended() == 0
    assert HIDDEN in terminal.seen
    assert terminal.restored()


def test_a_signal_restores_the_terminal(terminal: Terminal) -> None:
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.ended() == 128 + signal.SIGTERM
    assert HIDDEN in terminal.seen
    assert terminal.restored()
