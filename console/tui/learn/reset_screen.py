"""Begin the lesson anew? Names what goes."""

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
from lessons.player import Player


class ResetScreen(DeckModal):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "confirm", show=False),
        Binding("n", "leave", show=False),
    ]

    def __init__(self, player: Player, confirmed: Callable[[], None]) -> None:
        super().__init__()
        self._player = player
        self._confirmed = confirmed

    def body(self) -> Iterator[Widget]:
        yield Lines(name="question")
        yield Lines(name="answers")

    def show(self, view: View) -> None:
        palette = deck_of(self).look.palette
        lesson, record = self._player.lesson, self._player.record
        settled = record.settled()
        lines: list[Spans] = [
            [(f"Begin lesson {lesson.number} anew", palette.title)],
            [(f"your answers and measurements of {settled} of {len(lesson.steps)} steps are forgotten,", palette.text)],
            [("and its platform is put back as it was at the beginning", palette.text)],
        ]
        question = self.query_one("#question", Lines)
        question.styles.height = len(lines)
        question.put(lines)
        key, dim = palette.key, palette.dim
        answers: Spans = [
            ("y", key),
            (" reset   ", palette.text),
            ("n", key),
            (" or ", dim),
            ("Esc", key),
            (" no", dim),
        ]
        self.query_one("#answers", Lines).put([answers])

    def action_confirm(self) -> None:
        if self.readable:
            self.dismiss()
            self._confirmed()
