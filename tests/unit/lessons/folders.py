"""Lesson folders for tests: the template, with changes."""

from __future__ import annotations

from pathlib import Path

from lessons.catalogue import write_new


def lesson_folder(tmp_path: Path, toml: dict[str, str] | None = None, words: dict[str, str] | None = None) -> Path:
    """The template's lesson; each text that is named is replaced by another, once."""
    folder = write_new("12-my-lesson", tmp_path)
    for name, changes in (("lesson.toml", toml or {}), ("words.md", words or {})):
        text = (folder / name).read_text()
        for old, new in changes.items():
            assert old in text, old
            text = text.replace(old, new, 1)
        (folder / name).write_text(text)
    return folder
