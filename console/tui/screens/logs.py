"""One whole log, followed."""

from __future__ import annotations

from collections.abc import Iterator

from textual.widget import Widget

from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.messages import LogRead
from console.tui.render.figures import count
from console.tui.render.spans import Span
from console.tui.screens.deck_screen import DeckScreen
from console.tui.widgets.lines import Lines
from console.tui.widgets.log_view import LogView


class LogsScreen(DeckScreen):
    hints = (("G", "follow"), ("g", "top"), ("← →", "pan"))

    def body(self) -> Iterator[Widget]:
        yield Lines(name="log-title")
        yield LogView()

    @property
    def log_view(self) -> LogView:
        return self.query_one(LogView)

    @property
    def log_target(self) -> str:
        """As the platform names it: a worker by its bare id."""
        return self.route.id.removeprefix("worker/")

    def focus_body(self) -> None:
        self.log_view.focus()

    def on_mount(self) -> None:
        super().on_mount()
        self.focus_body()

    def show(self, view: View) -> None:
        palette = deck_of(self).look.palette
        following = self.log_view.following
        title: list[Span] = [
            (f"  {count(self.log_view.lines)} lines kept, ", palette.dim),
            ("follows" if following else "stands still: G follows again", palette.good if following else palette.watch),
        ]
        self.query_one("#log-title", Lines).put([title])

    def on_log_view_let(self) -> None:
        self.show(deck_of(self).view())

    def read(self, piece: LogRead) -> None:
        if piece.target != self.log_target:
            return
        if piece.error:
            self.log_view.fail(piece.error)
        elif piece.anew:
            self.log_view.clear()
        else:
            self.log_view.feed(piece.data)
        self.show(deck_of(self).view())

    def filter(self, needle: str) -> None:
        self.log_view.filter(needle)
