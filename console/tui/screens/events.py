"""What happened, newest first; Enter goes to what it was about."""

from __future__ import annotations

from collections.abc import Iterator

from textual.widget import Widget

from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.route import Route
from console.tui.screens.deck_screen import DeckScreen
from console.tui.widgets.event_table import event_id, event_table
from console.tui.widgets.table import Table


class EventsScreen(DeckScreen):
    hints = (("Enter", "what it was about"),)

    def body(self) -> Iterator[Widget]:
        yield event_table()

    @property
    def table(self) -> Table[object]:
        return self.query_one("#events", Table)

    def focus_body(self) -> None:
        self.table.focus()

    def on_mount(self) -> None:
        super().on_mount()
        self.focus_body()

    def show(self, view: View) -> None:
        self.table.show(view.events[::-1], view)

    def filter(self, needle: str) -> None:
        self.table.filter(needle)

    def on_table_chosen(self, event: Table.Chosen) -> None:
        deck = deck_of(self)
        subject = next((e.subject for e in deck.view().events if event_id(e) == event.row_id), "")
        kind, _, name = subject.partition("/")
        if kind in ("worker", "request") and name:
            deck.go(Route(kind, name))
        elif kind in ("pool", "gateway", "router", "model"):
            deck.go(Route("pools"))
        else:
            deck.tell(f"there is nothing to open for {subject or 'this event'}")
