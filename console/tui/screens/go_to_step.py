"""Asks for the number of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from textual.widget import Widget
from textual.widgets import Input

from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.render.spans import Spans
from console.tui.screens.deck_modal import DeckModal
from console.tui.widgets.entry import Entry
from console.tui.widgets.lines import Lines


class GoToStepScreen(DeckModal):
    def __init__(self, first: int, last: int, go: Callable[[int], None]) -> None:
        super().__init__()
        self._first, self._last, self._go = first, last, go

    def body(self) -> Iterator[Widget]:
        yield Lines(name="question")
        yield Entry(id="step", restrict=r"[0-9]{0,12}", select_on_focus=False)
        yield Lines(name="answers")

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#question").styles.height = 2
        self.query_one("#step").focus()

    def show(self, view: View) -> None:
        palette = deck_of(self).look.palette
        lines: list[Spans] = [
            [("Go to step", palette.title)],
            [(f"{self._first} to {self._last} are kept", palette.dim)],
        ]
        self.query_one("#question", Lines).put(lines)
        answers: Spans = [
            ("Enter", palette.key),
            (" go there   ", palette.dim),
            ("Esc", palette.key),
            (" leave", palette.dim),
        ]
        self.query_one("#answers", Lines).put([answers])

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if not self.readable or not event.value.isdecimal():
            return
        self.dismiss()
        self._go(int(event.value))
