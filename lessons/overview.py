"""The parts of this room's README that follow from the lessons themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lessons.actions import ACTIONS
from lessons.measures import MEASURES
from lessons.model import Check, Do, Lesson, Observe, Predict

PICTURE: Final = "moment.svg"
"""Of a lesson while it ran, in its folder; ``inferdeck learn moment`` writes it."""


def lesson_row(lesson: Lesson) -> str:
    """A row of the table: concepts → steps → live evidence."""
    predictions = [step.id for step in lesson.steps if isinstance(step, Predict)]
    experiments = [
        f"`{step.id}`: {', '.join(each.name for each in step.measures)}"
        for step in lesson.steps
        if isinstance(step, Observe)
    ]
    repairs = [step.id for step in lesson.steps if isinstance(step, Do | Check)]
    picture = f" [▣](content/{lesson.name}/{PICTURE})" if (lesson.folder / PICTURE).is_file() else ""
    cells = (
        f"{lesson.number} {lesson.title}{picture}",
        ", ".join(map(str, lesson.concepts)),
        "the simulator" if lesson.sandbox.engine == "sim" else "real vLLM",
        _code(predictions),
        "; ".join(experiments),
        _code(repairs),
    )
    return f"| {' | '.join(cells)} |"


def actions_told() -> str:
    return _code(ACTIONS)


def measures_told() -> str:
    return _code(MEASURES)


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
