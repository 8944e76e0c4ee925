"""Callers' keys: who may call, and what."""

from __future__ import annotations

from collections.abc import Iterator

from textual.widget import Widget

from console.home_key import trouble
from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.messages import KeysRead
from console.tui.render.figures import count
from console.tui.render.spans import Span
from console.tui.route import Route
from console.tui.screens.deck_screen import DeckScreen
from console.tui.widgets.key_table import key_table
from console.tui.widgets.lines import Lines
from console.tui.widgets.table import Table

_STATES = ("active", "expired", "revoked")


class KeysScreen(DeckScreen):
    def __init__(self, route: Route) -> None:
        super().__init__(route)
        self._newest = self._shown = KeysRead()

    def body(self) -> Iterator[Widget]:
        yield Lines(name="counts")
        yield key_table()

    @property
    def table(self) -> Table[object]:
        return self.query_one("#keys", Table)

    @property
    def wants_keys(self) -> bool:
        return True

    def focus_body(self) -> None:
        self.table.focus()

    def on_mount(self) -> None:
        super().on_mount()
        self.focus_body()

    def keys_read(self, news: KeysRead) -> None:
        # Where they cannot be told now, those that were told last stay, and the line above says so.
        self._newest = KeysRead(self._newest.keys, news.error) if news.error else news
        self.show(deck_of(self).view())

    def show(self, view: View) -> None:
        if not view.paused:
            self._shown = self._newest
        palette = deck_of(self).look.palette
        keys = self._shown.keys.keys if self._shown.keys is not None else ()
        spans: list[Span] = [("  ", palette.dim)]
        states = [key.state(view.now_unix) for key in keys]
        for state in _STATES:
            number = states.count(state) if self._shown.keys is not None else None
            spans += [(count(number), palette.title), (f" {state}   ", palette.dim)]
        if self._shown.keys is not None and (words := trouble(self._shown.keys)):
            spans.append((words, palette.watch))
        if self._shown.error:
            spans.append((self._shown.error, palette.watch))
        self.query_one("#counts", Lines).put([spans])
        self.table.show(keys, view)

    def filter(self, needle: str) -> None:
        self.table.filter(needle)
