from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from console.learn import lines
from lessons.loader import load
from lessons.progress import Progress
from tests.unit.lessons.folders import lesson_folder
from tests.unit.lessons.scripted_stage import ScriptedStage


class Terminal:
    """What a learner types, and what is printed: each prompt ends in what was typed at it."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self.stage = ScriptedStage()
        self.stage.home = "/a/home"
        self.progress = Progress.read(tmp_path / "learn.json")
        self._lesson = load(lesson_folder(tmp_path))
        self._words: Iterator[str] = iter(())
        monkeypatch.setattr(lines, "typed", self._typed)

    async def _typed(self) -> str:
        return next(self._words)

    async def play(self, *words: str) -> str:
        self.said.clear()
        self._words = iter(words)
        player = lines.LinePlayer(self._lesson, self.stage, self.progress, self.said.append, self.said.append)
        await player.go()
        return "\n".join(self.said)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(tmp_path, monkeypatch)


async def test_a_lesson_from_its_first_screen_to_its_last(terminal: Terminal) -> None:
    told = await terminal.play("", "", "0.06", "b", "", "", "a", "b", "", "", "", "", "s", "")
    assert "inferdeck get workers --home /a/home" in told
    assert "✓ right: predicted 60 ms · measured: 60 ms" in told
    assert "The hint for who answers so." in told
    assert "`inferdeck get workers` shows what is wrong." in told
    assert "inferdeck uncordon w-1" in told
    assert terminal.said[-1] == "Lesson 12 is done. 1 of 8 steps were skipped."
    assert terminal.progress.lesson("12-my-lesson").finished


async def test_leaving_keeps_everything_and_the_next_time_goes_on_from_there(terminal: Terminal) -> None:
    told = await terminal.play("", "", "0.06", "b", "", "q")
    assert told.endswith("kept: the same command goes on from here")
    told = await terminal.play("<", "a", "", "q")
    assert "12.4  observe" in told
    assert "measured already" in told
    assert "time to first token       60 ms" in told


async def test_what_is_not_understood_is_told_and_nothing_is_lost(terminal: Terminal) -> None:
    told = await terminal.play("nonsense", "", "", "soon", "", "h", "h", "?", "r", "q")
    assert "nothing is asked here" in told
    assert "'soon' is no number (s)" in told
    assert "commit a prediction first" in told
    assert "A hint for who asks for one." in told
    assert "There is no other hint." in told
    assert told.count("12.1  reveal") == 2


async def test_a_number_has_its_unit(terminal: Terminal) -> None:
    told = await terminal.play("", "", "70 ms", "b", "", "q")
    assert "predicted 70 ms · measured: 60 ms" in told


async def test_an_experiment_without_effect_gives_no_answer_away(terminal: Terminal) -> None:
    terminal.stage.cut = 4
    told = await terminal.play("", "", "0.06", "b", "", "q")
    assert "Its effect did not show this time. Run it again." in told
    assert "60 tokens" not in told
    terminal.stage.cut = 0
    assert "64 tokens" in await terminal.play("", "q")


async def test_what_is_done_is_set_off_again_by_who_goes_back(terminal: Terminal) -> None:
    told = await terminal.play("", "", "0.06", "b", "", "", "b", "", "", "", "<", "a", "q")
    assert terminal.said.count("   [Enter goes on, a does it again] > ") == 4, (
        "of the experiment and the break, each time that they are done"
    )
    assert terminal.stage.asked.count("inferdeck cordon w-1") == 2
    assert told.count("✓ no worker takes new requests") == 2


async def test_a_hint_with_a_command_says_where_it_is_typed_and_what_fails_is_told_once(terminal: Terminal) -> None:
    told = await terminal.play("", "", "0.06", "b", "", "", "b", "", "", "", "", "", "", "q")
    assert told.count("(in another terminal: inferdeck … --home /a/home)") == 2
    assert told.count("is 0 workers") == 3


async def test_a_finished_lesson_says_how_it_went_and_asks_what_to_do(terminal: Terminal) -> None:
    await terminal.play("", "", "0.06", "b", "", "", "a", "b", "", "", "", "", "s", "")
    score = "Lesson 12 is done: 2 of 2 predictions right; 1 of 8 steps skipped."
    told = await terminal.play("what?", "q")
    assert told.splitlines()[0] == score
    assert "[Enter begins it anew · b looks back · q leaves]" in told
    record = terminal.progress.lesson("12-my-lesson")
    assert record.finished
    asked = len(terminal.stage.asked)
    told = await terminal.play("b", "", "", "", "", "q")
    assert "time to first token       60 ms" in told
    assert terminal.stage.asked[asked:] == ["start sim 1"]
    assert record.finished
    assert record.settled() == 8
    await terminal.play("", "q")
    assert not terminal.progress.lesson("12-my-lesson").settled()
