"""The lessons that there are, and how far one is in each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from textual.widget import Widget

from console.learn.entries import Entry, entries
from console.tui.deck import deck_of
from console.tui.learn.desk import desk_of
from console.tui.live.board import Link, View
from console.tui.render.spans import Spans
from console.tui.route import Route
from console.tui.screens.deck_screen import DeckScreen
from console.tui.widgets.footer import Footer
from console.tui.widgets.header import Header
from console.tui.widgets.lines import Lines
from console.tui.widgets.table import Column, Context, Table
from lessons.progress import Progress

_BAR = 6


class LessonsScreen(DeckScreen):
    DEFAULT_CSS = "LessonsScreen #about { height: 4; padding: 1 1 0 1; }"

    def __init__(self, route: Route, progress: Progress) -> None:
        super().__init__(route)
        self._progress = progress
        self._entries: list[Entry] = []
        self._anew = True

    def body(self) -> Iterator[Widget]:
        yield Lines(name="about")
        yield Table(COLUMNS, lambda entry: entry.name, _haystack, empty="no lesson", can_mark=False, name="lessons")

    @property
    def table(self) -> Table[object]:
        return self.query_one("#lessons", Table)

    def focus_body(self) -> None:
        self.table.focus()

    def on_mount(self) -> None:
        self.focus_body()

    def on_screen_resume(self) -> None:
        """How far one is may have changed: the cursor goes to what comes next."""
        self._entries = entries(self._progress)
        self._anew = True

    def show(self, view: View) -> None:
        palette = deck_of(self).look.palette
        words: list[Spans] = [
            [("Each lesson has its own platform, which ends with it; yours is not touched.", palette.text)],
            [("See, predict, do: nothing that comes out is known before you run it.", palette.dim)],
        ]
        self.query_one("#about", Lines).put(words)
        # The list is no news of a platform, so that it cannot be old.
        self.table.show(self._entries, replace(view, link=Link(connected=True)))
        if self._anew:
            self._anew = False
            self._to_next()

    def _to_next(self) -> None:
        names = [entry.name for entry in self._entries]
        begun = [entry.name for entry in self._entries if not entry.finished]
        if begun and self.table.current in names:
            self.table.action_move(names.index(begun[0]) - names.index(self.table.current))

    def paint_frame(self, view: View) -> None:
        look = deck_of(self).look
        done = sum(entry.finished for entry in self._entries)
        filtered = f"  /{self.needle}" if self.needle else ""
        self.query_one(Header).put(
            [
                [
                    (" InferDeck ", look.palette.title),
                    (f"{look.glyphs.crumb} ", look.palette.dim),
                    (f"lessons{filtered}", look.palette.accent),
                    (f"  {done} of {len(self._entries)} done", look.palette.dim),
                ]
            ]
        )
        self.query_one(Footer).show((("Enter", "begin, or go on"), ("/", "filter"), ("Esc", "leave"), ("?", "help")))

    def filter(self, needle: str) -> None:
        self.table.filter(needle)

    def on_table_chosen(self, event: Table.Chosen) -> None:
        desk_of(self).open_lesson(event.row_id)


def _haystack(entry: Entry) -> str:
    return f"{entry.name} {entry.title} {entry.runs_on} {entry.progress}"


def _bar(entry: Entry, at: Context) -> Spans:
    """How much of it is settled, in cells."""
    palette, glyphs = at.look.palette, at.look.glyphs
    if entry.finished:
        return [(glyphs.bar * _BAR, palette.good), (f"  {entry.progress}", palette.good)]
    filled = min(_BAR, -(-entry.done * _BAR // max(1, entry.steps)))
    return [
        (glyphs.bar * filled, palette.accent),
        (glyphs.bar_empty * (_BAR - filled), palette.faint),
        (f"  {entry.progress}", palette.text if entry.done else palette.faint),
    ]


COLUMNS: tuple[Column[Entry], ...] = (
    Column("", 2, lambda entry, at: [(f"{int(entry.name[:2])}", at.look.palette.accent)], right=True),
    Column("lesson", 24, lambda entry, at: [(entry.title, at.look.palette.title)], grow=1),
    Column("min", 3, lambda entry, at: [(str(entry.minutes), at.look.palette.dim)], rank=2, right=True),
    Column("runs on", 13, lambda entry, at: [(entry.runs_on, at.look.palette.dim)], rank=1),
    Column("progress", 26, _bar),
)
