from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from console.tui.learn.drawing import apart_lines, dots, hints, results, scores
from console.tui.render.look import PLAIN, RICH_LOOK, SIXTEEN_COLOURS, Look
from console.tui.render.spans import Span, width_of
from lessons.answers import outcome
from lessons.loader import load
from lessons.model import Predict
from lessons.player import Row
from lessons.progress import LessonRecord, State, StepRecord
from tests.unit.console.tui.learn.test_draft import EVERY_KIND

LESSON = load(EVERY_KIND)


def text(lines: list[list[Span]]) -> list[str]:
    return ["".join(part for part, _ in line) for line in lines]


def predicted(step_id: str, answer: str, measured: float | str | None) -> tuple[Predict, object]:
    step = LESSON.step(step_id)
    assert isinstance(step, Predict)
    return step, outcome(step, answer, measured)


ROWS = (
    Row("full", "KV-cache use, at its peak", 0.98, "98 %"),
    Row("failed", "calls that failed", 0.0, "0"),
    Row("first", "time to first token", 1.9, "1.9 s"),
)


def test_a_prediction_stands_before_what_was_measured() -> None:
    told = [predicted("guess-full", "60", 0.98), predicted("guess-failed", "a", 0.0)]
    lines = text(results(ROWS, told, 50, RICH_LOOK))  # type: ignore[arg-type]
    assert lines[0].split() == ["you", "measured"]
    assert lines[1].endswith("60 %      98 %")
    assert lines[2].endswith("   a         0")
    assert lines[3].endswith("           1.9 s")
    assert {len(line) for line in lines} == {50}
    assert text(scores(told, 60, RICH_LOOK)) == [  # type: ignore[arg-type]
        "✗ not so: you said 60 %, it is 98 %",
        "✗ not so, it is b) All are answered; some only later",
    ]


@pytest.mark.parametrize(("width", "shown"), [(40, "59 requests"), (24, "59")])
def test_a_predicted_number_is_not_cut(width: int, shown: str) -> None:
    step = LESSON.step("guess-full")
    assert isinstance(step, Predict)
    told = [(step, replace(outcome(step, "59", 0.6), predicted="59 requests"))]
    line = text(results([Row("full", "requests that fit", 59.0, "118 requests")], told, width, RICH_LOOK))[1]
    assert line.split("  ")[-2].strip() == shown
    assert line.endswith("118 requests")


def test_without_predictions_there_is_no_column_for_them() -> None:
    lines = text(results(ROWS, [], 40, RICH_LOOK))
    assert lines[0].split() == ["measured"]


@pytest.mark.parametrize("width", [24, 30, 41, 78])
def test_long_labels_take_more_lines_and_no_line_is_too_wide(width: int) -> None:
    told = [predicted("guess-worker", "w-1", "w-2"), predicted("guess-failed", "b", 3.0)]
    long = (*ROWS, Row("which", "the worker with by far the longest engine steps of all", "w-2", "w-2"))
    for line in [*results(long, told, width, RICH_LOOK), *scores(told, width, RICH_LOOK)]:  # type: ignore[arg-type]
        assert width_of(line) <= width


def test_what_was_not_measured_is_told_so() -> None:
    assert text(scores([predicted("guess-full", "60", None)], 60, RICH_LOOK)) == ["? not measured"]  # type: ignore[list-item]


def test_each_state_of_a_step_has_its_own_dot() -> None:
    record = LessonRecord(steps={"idea": StepRecord(State.DONE), "look": StepRecord(State.SKIPPED)})
    line = "".join(part for part, _ in dots(LESSON, record, 2, RICH_LOOK))
    assert line == "▪▫▸" + "·" * (len(LESSON.steps) - 3)
    plain = "".join(part for part, _ in dots(LESSON, record, 2, Look(SIXTEEN_COLOURS, PLAIN, "ansi-dark")))
    assert plain == "#->" + "." * (len(LESSON.steps) - 3)


def test_groups_are_apart_and_empty_ones_leave_nothing() -> None:
    one: list[list[Span]] = [[("a", RICH_LOOK.palette.text)]]
    assert text(apart_lines([], one, [], one)) == ["a", "", "a"]


def test_a_hint_keeps_its_lines_and_no_name_in_it_is_parted() -> None:
    hint = "The engine has to start\nanew, with\n\n    inferdeck down --home /somewhere/else"
    assert text(hints([hint], 44, RICH_LOOK)) == [
        "hint The engine has to start anew, with",
        "     ",
        "         inferdeck down --home",
        "         /somewhere/else",
    ]
    alias = "`inferdeck policy set routing.aliases.gpt-4o=smollm2-135m`"
    assert text(hints([alias], 38, RICH_LOOK)) == [
        "hint ",
        "inferdeck policy set",
        "routing.aliases.gpt-4o=smollm2-135m",
    ]
    assert text(hints([alias], 30, RICH_LOOK))[-2:] == ["routing.aliases.gpt-4o=", "smollm2-135m"]


def test_the_lesson_of_these_tests_is_one(tmp_path: Path) -> None:
    assert {step.kind for step in LESSON.steps} == {"reveal", "show", "predict", "observe", "quiz", "do", "check"}
