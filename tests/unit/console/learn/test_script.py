from __future__ import annotations

from pathlib import Path

from console.learn.screen import ROOM, paragraph
from console.learn.script import play
from console.text import width
from lessons.catalogue import folders
from lessons.loader import load
from tests.unit.lessons.folders import lesson_folder
from tests.unit.lessons.scripted_stage import ScriptedStage


async def test_what_was_measured_stands_beside_what_was_predicted(tmp_path: Path) -> None:
    said: list[str] = []
    assert await play(load(lesson_folder(tmp_path)), ScriptedStage(), said.append)
    text = "\n".join(said)
    assert "time to first token       60 ms" in text
    assert "≈ close: predicted 50 ms · measured: 60 ms" in text
    assert "✓ the whole answer came" in text
    assert "$ inferdeck uncordon w-1" in text
    assert said[-1] == "Lesson 12: each check held."
    assert all("simulated nothing" in line for line in said if line.startswith("12."))


async def test_an_effect_that_does_not_show_fails_the_lesson_and_is_told(tmp_path: Path) -> None:
    stage = ScriptedStage()
    stage.cut = 4
    said: list[str] = []
    assert not await play(load(lesson_folder(tmp_path)), stage, said.append)
    assert "   ✗ the whole answer came: is 60 tokens, should be 64 tokens" in said
    assert said[-1] == "Lesson 12: not every check held."


async def test_nothing_is_printed_that_was_not_measured(tmp_path: Path) -> None:
    stage = ScriptedStage()
    stage.ttft_s = 1.25
    said: list[str] = []
    await play(load(lesson_folder(tmp_path)), stage, said.append)
    assert any("✗ off: predicted 50 ms · measured: 1.25 s" in line for line in said)


def test_words_are_wrapped_and_emphasis_has_no_marks() -> None:
    text = "One **bold** and *slanted* `a*b` idea, " + "long " * 30 + "\n- a point\n\n```\nkept   as is\n```\n"
    lines = list(paragraph(text))
    assert lines[0].startswith("   One bold and slanted `a*b` idea, long")
    assert lines[-2:] == ["   - a point", "   kept   as is"]
    assert all(width(line) <= ROOM for line in lines)


def test_no_word_of_a_lesson_acts_on_a_terminal(tmp_path: Path) -> None:
    assert "\x1b" not in "".join(paragraph("a \x1b[31mred\x1b[0m word"))
    for folder in folders():
        assert all(width(line) <= ROOM for step in load(folder).steps for line in paragraph(step.words.pages[0]))
