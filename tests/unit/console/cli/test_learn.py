from __future__ import annotations

import json
from pathlib import Path

import pytest

from console.plain.terminal import draws
from lessons.model import Lesson
from lessons.progress import Progress, State, StepRecord
from tests.unit.console.conftest import Command


def test_the_list_tells_how_far_the_learner_is(inferdeck: Command, home: Path) -> None:
    progress = Progress.read(home / "learn.json")
    record = progress.lesson("07-worker-selection")
    record.steps = {"who-picks": StepRecord(State.DONE), "three-workers": StepRecord(State.SKIPPED)}
    progress.lesson("03-stream-and-cancel").finished = True
    progress.lesson("03-stream-and-cancel").steps = {"born": StepRecord(State.DONE)}
    progress.save()
    ran = inferdeck("learn")
    assert ran.code == 0
    lines = {line.split()[0]: line for line in ran.out.splitlines()}
    assert lines["07-worker-selection"].endswith("2 of 14, 1 skipped")
    assert lines["03-stream-and-cancel"].endswith("done")
    assert lines["05-kv-cache-fills-up"].endswith("–")
    assert "the simulator" in lines["05-kv-cache-fills-up"]
    names = [entry["name"] for entry in json.loads(inferdeck("learn", "-o", "json").out)]
    assert names == sorted(names)
    assert inferdeck("learn", "-o", "name").out.splitlines()[0] == "lesson/01-api-two-kinds"


def test_a_lesson_asks_so_somebody_has_to_be_there(inferdeck: Command) -> None:
    ran = inferdeck("learn", "7")
    assert ran.code == 2
    assert "hint: inferdeck learn 7 --script" in ran.err


def test_a_wrong_name_is_told_with_the_right_one(inferdeck: Command) -> None:
    ran = inferdeck("learn", "worker-selektion", "--script")
    assert ran.code == 3
    assert "did you mean 07-worker-selection?" in ran.err


def test_a_broken_lesson_is_told_by_file_line_and_column(inferdeck: Command, tmp_path: Path) -> None:
    assert inferdeck("learn", "new", "12-mine", "--in", str(tmp_path)).out == f"{tmp_path}/12-mine\n"
    file = tmp_path / "12-mine" / "lesson.toml"
    file.write_text(file.read_text().replace("minutes", "minuets"))
    ran = inferdeck("learn", "verify", f"{tmp_path}/12-mine")
    assert ran.code == 2
    assert f"{file}:3:1: unknown key 'minuets'; did you mean minutes?" in ran.err
    assert f"hint: edit {file}" in ran.err


def test_a_lesson_has_a_platform_of_its_own_and_none_elsewhere(inferdeck: Command) -> None:
    for words in (("learn", "7", "--script"), ("learn", "verify")):
        ran = inferdeck(*words, "--server", "127.0.0.1:1", at_home=False)
        assert ran.code == 2
        assert "--server" in ran.err


def test_progress_that_cannot_be_read_is_left_alone(inferdeck: Command, home: Path) -> None:
    (home / "learn.json").write_text("?")
    ran = inferdeck("learn")
    assert ran.code == 1
    assert "is no progress file" in ran.err
    assert (home / "learn.json").read_text() == "?"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As on a terminal: which lesson was opened, "" for the list."""
    found: list[str] = []

    def run(progress: Progress, lesson: Lesson | None = None) -> int:
        found.append(lesson.name if lesson is not None else "")
        return 0

    monkeypatch.setattr("console.cli.commands.learn.draws", lambda: True)
    monkeypatch.setattr("console.tui.learn.app.run", run)
    return found


def test_on_a_terminal_the_screens_open(inferdeck: Command, opened: list[str]) -> None:
    assert inferdeck("learn").out == ""
    assert inferdeck("learn", "7").out == ""
    assert opened == ["", "07-worker-selection"]


def test_who_wants_lines_gets_lines(inferdeck: Command, opened: list[str]) -> None:
    assert "05-kv-cache-fills-up" in inferdeck("learn", "--plain").out
    assert "05-kv-cache-fills-up" in inferdeck("learn", "-o", "table").out
    assert inferdeck("learn", "7", "--plain").code == 2, "nobody is here to answer"
    assert opened == []


def test_a_terminal_that_cannot_draw_has_no_screens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.plain.terminal.is_terminal", lambda stream: True)
    assert draws()
    monkeypatch.setenv("TERM", "dumb")
    assert not draws()


def test_a_moment_is_that_of_an_experiment(inferdeck: Command) -> None:
    ran = inferdeck("learn", "moment", "7", "--at", "round-robbin")
    assert ran.code == 3
    assert "did you mean round-robin?" in ran.err
