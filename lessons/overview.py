"""The parts of this room's README that follow from the lessons; ``python -m lessons.overview`` writes them anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from lessons.actions import ACTIONS
from lessons.catalogue import folders
from lessons.concepts import CONCEPTS
from lessons.loader import load
from lessons.measures import MEASURES
from lessons.model import Check, Do, Lesson, Live, Observe, Predict, Show

PICTURE: Final = "moment.svg"
"""Of a lesson while it ran, in its folder; ``inferdeck learn moment`` writes it."""


_BEGIN: Final = "<!-- from the lessons: {} -->"
_END: Final = "<!-- end -->"


def renewed(readme: str, lessons: Sequence[Lesson]) -> str:
    """The same text with its generated parts as these lessons have them."""
    for name, lines in (
        ("lessons", ("| lesson | runs on | predict | break, and repair |", "|---|---|---|---|", *lesson_rows(lessons))),
        ("concepts", ("| concept | lesson, step | live evidence |", "|---|---|---|", *concept_rows(lessons))),
        ("pictures", tuple(pictures(lessons))),
        ("actions", (f"- **Actions** (`do = …`, `actions.py`): {_code(ACTIONS)}.",)),
        ("measures", (f"- **Measures** (`of = …`, `measures.py`): {_code(MEASURES)}.",)),
    ):
        before, begin, rest = readme.partition(_BEGIN.format(name) + "\n")
        _, end, after = rest.partition(_END)
        assert begin, name
        assert end, name
        readme = "".join((before, begin, *(f"{line}\n" for line in lines), end, after))
    return readme


def lesson_rows(lessons: Sequence[Lesson]) -> Iterator[str]:
    """A lesson a row: what it runs on, what is predicted, what is broken and repaired."""
    for lesson in lessons:
        cells = (
            f"{lesson.number} {lesson.title}",
            lesson.sandbox.runs_on,
            _code(step.id for step in lesson.steps if isinstance(step, Predict)),
            _code(step.id for step in lesson.steps if isinstance(step, Do | Check)),
        )
        yield _row(cells)


def concept_rows(lessons: Sequence[Lesson]) -> Iterator[str]:
    """Concept → lesson and step → live evidence: a row for every step that shows a concept, by concept."""
    for number, name in enumerate(CONCEPTS, start=1):
        shown = [
            (f"[{lesson.number}](content/{lesson.name}/lesson.toml) `{step.id}`", _evidence(step))
            for lesson in lessons
            for step in lesson.steps
            if isinstance(step, Live) and number in step.concepts
        ]
        for index, cells in enumerate(shown):
            yield _row(("" if index else f"{number} {name}", *cells))


def pictures(lessons: Sequence[Lesson]) -> Iterator[str]:
    """The best moment of each lesson that has a picture of it."""
    for lesson in lessons:
        if (lesson.folder / PICTURE).is_file():
            yield f"![{lesson.number} {lesson.title}](content/{lesson.name}/{PICTURE})"


def _evidence(step: Live) -> str:
    if isinstance(step, Show):
        return f"live view: {step.view}"
    if isinstance(step, Observe):
        return "measured: " + " · ".join(each.label for each in step.measures)
    return "checked: " + " · ".join(each.says for each in step.expects)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


if __name__ == "__main__":
    file = Path(__file__).with_name("README.md")
    file.write_text(renewed(file.read_text(), [load(folder) for folder in folders()]))
