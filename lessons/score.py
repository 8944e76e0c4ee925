"""How a learner did in a lesson, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from lessons.answers import Misread, Score, outcome
from lessons.model import Lesson, Predict
from lessons.progress import LessonRecord


def score_words(lesson: Lesson, record: LessonRecord) -> str:
    """For example "3 of 5 predictions right, 1 close; 2 of 14 steps skipped"."""
    scores = list(_scores(lesson, record))
    right, close, skipped = scores.count(Score.RIGHT), scores.count(Score.CLOSE), record.skipped()
    words = f"{right} of {len(scores)} predictions right" if scores else "every step done"
    words += f", {close} close" if close else ""
    return words + (f"; {skipped} of {len(lesson.steps)} steps skipped" if skipped else "")


def _scores(lesson: Lesson, record: LessonRecord) -> Iterator[Score]:
    for step in lesson.steps:
        if isinstance(step, Predict):
            try:
                yield outcome(step, record.of(step.id).answer, record.measured.get(step.value)).score
            except Misread:  # of a lesson that has changed since
                yield Score.UNKNOWN
