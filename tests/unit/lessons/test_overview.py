from __future__ import annotations

from pathlib import Path

import lessons
from lessons.catalogue import folders
from lessons.loader import load
from lessons.overview import actions_told, lesson_row, measures_told


def test_the_readme_has_what_follows_from_the_lessons() -> None:
    readme = Path(lessons.__file__).with_name("README.md").read_text()
    rows = [lesson_row(load(folder)) for folder in folders()]
    assert [line for line in readme.splitlines() if line[:3] in {row[:3] for row in rows} and line[2].isdigit()] == rows
    assert f"**Actions** (`do = …`, `actions.py`): {actions_told()}." in readme
    assert f"**Measures** (`of = …`, `measures.py`): {measures_told()}." in readme
