"""The requests that run now, and those that ended lately."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.order import Verb
from console.tui.render.figures import count
from console.tui.render.spans import Span
from console.tui.route import Route
from console.tui.screens.deck_screen import DeckScreen
from console.tui.widgets.lines import Lines
from console.tui.widgets.request_table import ordered, request_table
from console.tui.widgets.table import Table
from control_plane.contracts.fleet import RequestPhase


class RequestsScreen(DeckScreen):
    hints = (("Enter", "open"), ("Space", "mark"), ("a", "running only"))
    order_hints = (("^x", "cancel"),)
    BINDINGS: ClassVar[list[BindingType]] = [("a", "active", ""), ("w", "why", "")]

    def __init__(self, route: Route) -> None:
        super().__init__(route)
        self._running_only = False

    def body(self) -> Iterator[Widget]:
        yield Lines(name="counts")
        yield request_table()

    @property
    def table(self) -> Table[object]:
        return self.query_one("#requests", Table)

    def focus_body(self) -> None:
        self.table.focus()

    def on_mount(self) -> None:
        super().on_mount()
        self.focus_body()

    def show(self, view: View) -> None:
        palette = deck_of(self).look.palette
        requests = ordered(view.requests)
        phases = [request.phase for request in requests]
        spans: list[Span] = [("  ", palette.dim)]
        for phase, word in (
            (RequestPhase.QUEUED, "queued"),
            (RequestPhase.DISPATCHED, "sent"),
            (RequestPhase.DECODING, "decoding"),
            (RequestPhase.FINISHED, "finished"),
            (RequestPhase.CANCELLED, "cancelled"),
            (RequestPhase.FAILED, "failed"),
        ):
            number = phases.count(phase) if view.snapshot else None
            hurts = phase is RequestPhase.FAILED and number
            spans += [(count(number), palette.bad if hurts else palette.title), (f" {word}   ", palette.dim)]
        if self._running_only:
            requests = [request for request in requests if request.phase.active]
            spans.append(("running only", palette.watch))
        self.query_one("#counts", Lines).put([spans])
        self.table.show(requests, view)

    def action_active(self) -> None:
        self._running_only = not self._running_only
        self.show(deck_of(self).view())

    def action_why(self) -> None:
        if self.table.current:
            deck_of(self).go(Route("explain", self.table.current))

    def on_table_chosen(self, event: Table.Chosen) -> None:
        deck_of(self).go(Route("request", event.row_id))

    def filter(self, needle: str) -> None:
        self.table.filter(needle)

    def unmark(self) -> bool:
        had = bool(self.table.marked)
        self.table.unmark()
        return had

    def targets(self, verb: Verb) -> Sequence[str]:
        return self.table.selection if verb is Verb.CANCEL else []
