"""The platform at a glance: is it well, and where does it hurt?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.order import Verb
from console.tui.render.picture import HEIGHT as PICTURE
from console.tui.render.picture import picture
from console.tui.render.spans import greyed
from console.tui.route import Route
from console.tui.screens.deck_screen import DeckScreen
from console.tui.widgets.event_lines import EventLines
from console.tui.widgets.lines import Lines
from console.tui.widgets.plot_grid import HIGHEST, LOWEST, PlotGrid
from console.tui.widgets.table import Table
from console.tui.widgets.worker_table import worker_table

_PICTURE_FROM = 18


def share(height: int, workers: int) -> tuple[int, int, int, int]:
    """How many rows the picture, the table, the plots and the events get."""
    picture_rows = PICTURE if height >= _PICTURE_FROM else 0
    events = 1 if height < 22 else 2 if height < 30 else 5
    left = max(0, height - picture_rows - events)
    table = min(workers + 1, left) if workers else min(2, left)
    plots = left - table
    if plots < LOWEST and left >= LOWEST + 4:
        table, plots = left - LOWEST, LOWEST
    if plots > 4 * HIGHEST:
        events += plots - 4 * HIGHEST
        plots = 4 * HIGHEST
    return picture_rows, table, plots if plots >= LOWEST else 0, events + (plots if plots < LOWEST else 0)


class SystemScreen(DeckScreen):
    hints = (("Enter", "open"), ("Space", "mark"))
    order_hints = (("^d", "drain"), ("^o", "cordon"), ("^u", "uncordon"), ("^s", "scale"))
    BINDINGS: ClassVar[list[BindingType]] = [("e", "engine", "")]

    def body(self) -> Iterator[Widget]:
        yield Lines(name="picture")
        yield worker_table()
        yield PlotGrid()
        yield EventLines()

    @property
    def table(self) -> Table[object]:
        return self.query_one("#workers", Table)

    @property
    def trail(self) -> str:
        return "system"

    def focus_body(self) -> None:
        self.table.focus()

    def on_mount(self) -> None:
        super().on_mount()
        self.focus_body()

    def show(self, view: View) -> None:
        self._arrange(len(view.workers))
        look = deck_of(self).look
        if self.query_one("#picture").display:
            lines = picture(view, self.room.width, look)
            self.query_one("#picture", Lines).put(
                [greyed(line, look.palette.faint) for line in lines] if view.stale else lines
            )
        self.table.show(view.workers, view)
        self.query_one(PlotGrid).show(view, self.table.current)
        self.query_one(EventLines).show(view)

    def _arrange(self, workers: int) -> None:
        """Give the rows out again, if they fall out differently."""
        rows = share(self.room.height, workers)
        widgets = (self.query_one("#picture"), self.table, self.query_one(PlotGrid), self.query_one(EventLines))
        for widget, height in zip(widgets, rows, strict=True):
            widget.display = height > 0
            if height and (widget.styles.height is None or widget.styles.height.value != height):
                widget.styles.height = height

    def on_table_moved(self) -> None:
        self.query_one(PlotGrid).show(deck_of(self).view(), self.table.current)

    def on_table_chosen(self, event: Table.Chosen) -> None:
        deck_of(self).go(Route("worker", event.row_id))

    def action_engine(self) -> None:
        if self.table.current:
            deck_of(self).go(Route("engine", self.table.current))

    def filter(self, needle: str) -> None:
        self.table.filter(needle)

    def unmark(self) -> bool:
        had = bool(self.table.marked)
        self.table.unmark()
        return had

    def targets(self, verb: Verb) -> Sequence[str]:
        if verb.noun == "worker":
            return self.table.selection
        worker = deck_of(self).view().worker(self.table.current or "")
        return [worker.pool] if verb is Verb.SCALE and worker is not None else []
