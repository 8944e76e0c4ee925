from __future__ import annotations

from pathlib import Path

import lessons
from lessons.catalogue import folders
from lessons.loader import load
from lessons.overview import PICTURE, renewed

TAUGHT = {*range(2, 5), 6, 7, *range(9, 12), *range(14, 19), *range(20, 25)}
"""The concepts that the first eleven lessons are about."""


def test_the_readme_has_what_follows_from_the_lessons() -> None:
    """Otherwise: python -m lessons.overview"""
    readme = Path(lessons.__file__).with_name("README.md").read_text()
    assert renewed(readme, [load(folder) for folder in folders()]) == readme


def test_every_concept_of_these_lessons_is_shown_live_and_every_lesson_has_its_picture() -> None:
    every = [load(folder) for folder in folders()]
    assert {number for lesson in every for number in lesson.concepts} >= TAUGHT
    assert [lesson.name for lesson in every if not (lesson.folder / PICTURE).is_file()] == []
