from __future__ import annotations

from pathlib import Path

import pytest

from console.tui.learn.draft import Draft
from lessons.loader import load
from lessons.model import Lesson, Predict, Quiz

EVERY_KIND = Path(__file__).parents[4] / "snapshots" / "lessons" / "12-every-kind"
WORKERS = ("w-1", "w-2")


@pytest.fixture(scope="module")
def lesson() -> Lesson:
    return load(EVERY_KIND)


def draft(lesson: Lesson, step_id: str, given: str = "") -> Draft:
    step = lesson.step(step_id)
    assert isinstance(step, Predict | Quiz)
    return Draft(step, WORKERS, given)


def test_a_number_takes_what_numbers_are_made_of(lesson: Lesson) -> None:
    number = draft(lesson, "guess-full")
    assert [number.press(char) for char in "s 6h0.5%"] == [False, False, True, False, True, True, True, True]
    assert number.text == "60.5%"
    number.erase()
    assert number.text == "60.5"
    number.paste(" 1,200\n")
    assert number.text == "60.51,200"
    number.paste("9" * 100)
    assert len(number.text) == 16


@pytest.mark.parametrize("typed", ["21 ms", "200 µs", "1.5 GB", "70 %", "24 tokens", "3 ×", "2s"])
def test_a_number_takes_its_unit(lesson: Lesson, typed: str) -> None:
    number = draft(lesson, "guess-full")
    assert all(number.press(char) for char in typed)
    assert number.text == typed
    assert number.has_unit


def test_an_option_is_chosen_by_its_letter_or_moved_to(lesson: Lesson) -> None:
    choice = draft(lesson, "guess-failed")
    assert choice.text == ""
    assert not choice.press("c")
    assert choice.press("b")
    assert choice.text == "b"
    choice.move(1)
    assert choice.text == "b"
    choice.move(-1)
    choice.move(-1)
    assert choice.text == "a"
    choice.erase()
    assert choice.text == ""
    choice.move(1)
    assert choice.text == "a"


def test_a_worker_is_chosen_by_letter_and_committed_by_name(lesson: Lesson) -> None:
    which = draft(lesson, "guess-worker")
    assert which.options == WORKERS
    assert which.press("b")
    assert which.text == "w-2"


def test_what_was_committed_is_there_again(lesson: Lesson) -> None:
    assert draft(lesson, "guess-full", "62").text == "62"
    assert draft(lesson, "guess-failed", "b").chosen == 1
    assert draft(lesson, "guess-worker", "w-2").chosen == 1
    assert draft(lesson, "guess-worker", "w-9").text == ""
