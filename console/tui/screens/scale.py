"""How many workers should the pool have? The answer goes to a confirmation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.order import Verb
from console.tui.render.spans import Spans
from console.tui.screens.deck_modal import DeckModal
from console.tui.widgets.entry import Entry
from console.tui.widgets.lines import Lines

_MOST = 999


class ScaleScreen(DeckModal):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,plus", "add(1)", show=False, priority=True),
        Binding("down,minus", "add(-1)", show=False, priority=True),
    ]

    def __init__(self, pool: str, desired: int) -> None:
        super().__init__()
        self._pool, self._desired = pool, desired

    def body(self) -> Iterator[Widget]:
        yield Lines(name="question")
        yield Entry(str(self._desired), id="replicas", restrict=r"[0-9]{0,3}", select_on_focus=True)
        yield Lines(name="answers")

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#question").styles.height = 3
        self.query_one("#replicas").focus()

    def show(self, view: View) -> None:
        palette = deck_of(self).look.palette
        pool = view.pool(self._pool)
        now = f"desired {pool.desired}, {pool.observed} observed, {pool.ready} ready" if pool else "gone"
        lines: list[Spans] = [
            [(f"Scale pool {self._pool}", palette.title)],
            [(now, palette.dim if pool else palette.bad)],
            [("how many workers?", palette.text)],
        ]
        self.query_one("#question", Lines).put(lines)
        answers: Spans = [
            ("↑ ↓", palette.key),
            (" change   ", palette.dim),
            ("Enter", palette.key),
            (" go on   ", palette.dim),
            ("Esc", palette.key),
            (" leave", palette.dim),
        ]
        self.query_one("#answers", Lines).put([answers])

    def action_add(self, by: int) -> None:
        box = self.query_one("#replicas", Input)
        value = int(box.value) if box.value.isdecimal() else self._desired
        box.value = str(max(0, min(_MOST, value + by)))
        box.cursor_position = len(box.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if not self.readable or not event.value.isdecimal():
            return
        self.dismiss()
        deck_of(self).order(Verb.SCALE, [self._pool], int(event.value))
