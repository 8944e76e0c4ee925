"""A lesson that is done is opened: how it went, and whether it is taken again or looked back at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.render.spans import Spans
from console.tui.screens.deck_modal import DeckModal
from console.tui.widgets.lines import Lines
from lessons.model import Lesson
from lessons.progress import LessonRecord
from lessons.score import score_words


class FinishedScreen(DeckModal):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "again", show=False),
        Binding("b", "look_back", show=False),
        Binding("n", "leave", show=False),
    ]

    def __init__(
        self, lesson: Lesson, record: LessonRecord, again: Callable[[], None], look_back: Callable[[], None]
    ) -> None:
        super().__init__()
        self._lesson, self._record = lesson, record
        self._again, self._look_back = again, look_back

    def body(self) -> Iterator[Widget]:
        yield Lines(name="question")
        yield Lines(name="answers")

    def show(self, view: View) -> None:
        palette = deck_of(self).look.palette
        lines: list[Spans] = [
            [(f"Lesson {self._lesson.number} is done", palette.title)],
            [(score_words(self._lesson, self._record), palette.text)],
            [("Begun anew, your answers and measurements are forgotten;", palette.dim)],
            [("looked back at, they stay, and no experiment runs.", palette.dim)],
        ]
        question = self.query_one("#question", Lines)
        question.styles.height = len(lines)
        question.put(lines)
        key, text, dim = palette.key, palette.text, palette.dim
        answers: Spans = [("y", key), (" begin it anew   ", text), ("b", key), (" look back   ", text), ("n", key)]
        self.query_one("#answers", Lines).put([[*answers, (" or ", dim), ("Esc", key), (" no", dim)]])

    def action_again(self) -> None:
        self._close(self._again)

    def action_look_back(self) -> None:
        self._close(self._look_back)

    def _close(self, then: Callable[[], None]) -> None:
        if self.readable:
            self.dismiss()
            then()
