"""The lessons that there are, each with how far its learner is."""

from __future__ import annotations

from dataclasses import dataclass

from lessons.catalogue import folders
from lessons.loader import load
from lessons.progress import Progress


@dataclass(frozen=True, slots=True)
class Entry:
    """One lesson of the list. ``done`` are its steps that are passed or skipped."""

    name: str
    title: str
    minutes: int
    runs_on: str
    steps: int
    done: int
    skipped: int
    finished: bool

    @property
    def progress(self) -> str:
        if not self.done:
            return "–"
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"done{skipped}" if self.finished else f"{self.done} of {self.steps}{skipped}"


def entries(progress: Progress) -> list[Entry]:
    """Those that come with the program, in their order. Raises BadLesson."""
    found = []
    for folder in folders():
        lesson = load(folder)
        record = progress.lesson(lesson.name)
        counts = (len(lesson.steps), record.settled(), record.skipped())
        found.append(Entry(lesson.name, lesson.title, lesson.minutes, lesson.sandbox.runs_on, *counts, record.finished))
    return found
