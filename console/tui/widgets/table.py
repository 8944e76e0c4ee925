"""A table of live things: a cursor and marks that stay with an id, a literal filter, columns that fit the width.

Textual's own table redraws much and reads markup; this one builds only the cells that are seen, and draws again
only the rows that changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, TypeVar

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.render.literal import literal
from console.tui.render.look import Look
from console.tui.render.spans import Span, Spans, fit, greyed, strip

T = TypeVar("T")
_GUTTER = 2  # the mark, and a space
_WIDEST = 24


@dataclass(frozen=True, slots=True)
class Context:
    """What a cell is drawn for: a moment, a look, and the cells it has."""

    view: View
    look: Look
    width: int


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """``rank`` 0 is always shown, the highest goes first when there is no room; ``grow`` shares what is left.

    A column with ``whole`` is as wide as the longest of these texts, up to a limit: what tells rows apart is not cut.
    """

    title: str
    width: int
    cell: Callable[[T, Context], Spans]
    rank: int = 0
    right: bool = False
    grow: int = 0
    whole: Callable[[T], str] | None = None


def fitted(columns: Sequence[Column[T]], width: int) -> list[tuple[Column[T], int]]:
    """The columns that fit into ``width`` cells with one cell between them, in their order, and how wide each is."""
    kept = list(columns)
    while kept and sum(column.width + 1 for column in kept) - 1 > width:
        least = max(kept, key=lambda column: column.rank)
        if least.rank == 0:
            break
        kept.remove(least)
    spare = max(0, width - (sum(column.width + 1 for column in kept) - 1))
    shares = sum(column.grow for column in kept)
    out = []
    for column in kept:
        extra = spare * column.grow // shares if shares else 0
        out.append((column, column.width + extra))
    return out


class Table(ScrollView, Generic[T], can_focus=True):
    DEFAULT_CSS = "Table { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("home,g", "jump(0)", show=False),
        Binding("end,G", "jump(1)", show=False),
        Binding("space", "mark", show=False),
        Binding("asterisk", "mark_all", show=False),
        Binding("enter", "choose", show=False),
    ]

    @dataclass
    class Chosen(Message):
        """Enter, or a double click, on a row."""

        table: Table[object]
        row_id: str

    @dataclass
    class Moved(Message):
        """The cursor came to another row, or the marks changed."""

        table: Table[object]

    def __init__(
        self,
        columns: Sequence[Column[T]],
        row_id: Callable[[T], str],
        haystack: Callable[[T], str],
        *,
        empty: str = "nothing here",
        can_mark: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(id=name)
        self._columns, self._row_id, self._haystack = columns, row_id, haystack
        self._empty, self._can_mark = empty, can_mark
        self._view: View | None = None
        self._all: Sequence[T] = ()
        self._rows: list[T] = []
        self._ids: list[str] = []
        self._needle = ""
        self._cursor = 0
        self._marked: set[str] = set()
        self._fitted: list[tuple[Column[T], int]] = []
        self._fitted_for: tuple[int, tuple[int, ...]] = (0, ())
        self._drawn: dict[int, list[Span]] = {}

    @property
    def columns(self) -> int:
        """Cells of a line: without the scroll bar, whose place is always kept."""
        return self.scrollable_content_region.width

    @property
    def current(self) -> str | None:
        """The id under the cursor."""
        return self._ids[self._cursor] if self._ids else None

    @property
    def selection(self) -> list[str]:
        """What an order is about: the marked rows in their order, filtered out or not, else the one at the cursor."""
        marked = [name for item in self._all if (name := self._row_id(item)) in self._marked]
        return marked or ([self.current] if self.current is not None else [])

    @property
    def marked(self) -> frozenset[str]:
        return frozenset(self._marked)

    @property
    def shown(self) -> Sequence[str]:
        """The ids that the filter let through."""
        return self._ids

    def use(self, columns: Sequence[Column[T]]) -> None:
        """Other columns from the next ``show`` on."""
        if tuple(columns) != tuple(self._columns):
            self._columns, self._fitted_for = columns, (0, ())

    def show(self, items: Sequence[T], view: View, *, at_top: bool = False) -> None:
        """``at_top``: the cursor is on the first row, and that one in sight, whichever row it is."""
        self._all, self._view = items, view
        self._fit()
        if at_top and self.scroll_offset.y:
            self.scroll_to(y=0, animate=False, force=True)
        self._arrange(None if at_top else self.current)

    def _fit(self) -> None:
        """Share the width out again, if it or the longest texts have changed."""
        longest = tuple(self._longest(column) for column in self._columns)
        if (self.columns, longest) != self._fitted_for:
            self._fitted_for = (self.columns, longest)
            widened = [replace(c, width=max(c.width, most)) for c, most in zip(self._columns, longest, strict=True)]
            self._fitted = fitted(widened, self.columns - _GUTTER)
            self._drawn.clear()
            self.refresh()

    def _longest(self, column: Column[T]) -> int:
        if column.whole is None:
            return 0
        return min(_WIDEST, max((cell_len(literal(column.whole(item))) for item in self._all), default=0))

    def filter(self, needle: str) -> None:
        """Show the rows that contain this text, in whatever case; it is text, not a pattern."""
        self._needle = needle.casefold()
        self._arrange(self.current)

    def unmark(self) -> None:
        self._marked.clear()
        self._redraw()

    def _arrange(self, keep: str | None) -> None:
        needle, before = self._needle, self.current
        self._rows = [item for item in self._all if not needle or needle in self._haystack(item).casefold()]
        self._ids = [self._row_id(item) for item in self._rows]
        self._marked &= {self._row_id(item) for item in self._all}
        if keep is None:
            self._cursor = 0
        if keep is not None and keep in self._ids:
            self._cursor = self._ids.index(keep)
        self._cursor = max(0, min(self._cursor, len(self._ids) - 1))
        size = Size(self.columns, len(self._rows) + 1)
        if size != self.virtual_size:
            self.virtual_size = size
        self._redraw()
        if before != self.current:
            self.post_message(self.Moved(self))  # type: ignore[arg-type]

    def _redraw(self) -> None:
        """Draw again the lines on screen whose cells are no longer the same."""
        top = self.scroll_offset.y
        for y in range(self.size.height):
            spans = self._line(y, top)
            if self._drawn.get(y) != spans:
                self._drawn[y] = spans
                self.refresh(Region(0, y, self.columns, 1))

    def render_line(self, y: int) -> Strip:
        spans = self._drawn[y] = self._line(y, self.scroll_offset.y)
        base = self.rich_style
        return strip(spans, self.columns, base + deck_of(self).look.palette.titles if y == 0 else base)

    def _line(self, y: int, top: int) -> list[Span]:
        look = deck_of(self).look
        if self._view is None:
            return []
        if y == 0:
            return self._title_line(look)
        index = top + y - 1
        if index >= len(self._rows):
            said = y == 1 and not self._rows
            word = f"no row contains {self._needle!r}" if self._needle and self._all else self._empty
            return [("  " + word, look.palette.dim)] if said else []
        return self._row_line(index, look)

    def _title_line(self, look: Look) -> list[Span]:
        spans: list[Span] = [(" " * _GUTTER, look.palette.dim)]
        for column, width in self._fitted:
            spans += [*fit([(column.title, look.palette.dim)], width, right=column.right), (" ", look.palette.dim)]
        return spans[:-1]

    def _row_line(self, index: int, look: Look) -> list[Span]:
        assert self._view is not None
        palette = look.palette
        marked = self._ids[index] in self._marked
        spans: list[Span] = [(f"{look.glyphs.mark if marked else ' '} ", palette.mark)]
        for column, width in self._fitted:
            cell = column.cell(self._rows[index], Context(self._view, look, width))
            spans += [*fit(cell, width, look.glyphs.ellipsis, right=column.right), (" ", Style.null())]
        spans.pop()
        if self._view.stale:
            spans = greyed(spans, palette.faint)
        if index == self._cursor:
            over = palette.cursor if self.has_focus else palette.cursor_blurred
            spans = [(text, style + over) for text, style in fit(spans, self.columns)]
        return spans

    def on_resize(self, event: events.Resize) -> None:
        self._fit()
        self._drawn.clear()
        self.virtual_size = Size(self.columns, len(self._rows) + 1)
        self._keep_in_sight()
        self.refresh()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def action_move(self, by: int) -> None:
        self._move_to(self._cursor + by)

    def action_page(self, by: int) -> None:
        self._move_to(self._cursor + by * max(1, self.size.height - 2))

    def action_jump(self, end: int) -> None:
        self._move_to(len(self._ids) - 1 if end else 0)

    def action_mark(self) -> None:
        if self.current is None or not self._can_mark:
            return
        self._marked ^= {self.current}
        self._move_to(self._cursor + 1)
        self._redraw()
        self.post_message(self.Moved(self))  # type: ignore[arg-type]

    def action_mark_all(self) -> None:
        """All that the filter lets through; once more, none."""
        if self._can_mark:
            every = set(self._ids)
            self._marked = self._marked - every if every <= self._marked else self._marked | every
            self._redraw()
            self.post_message(self.Moved(self))  # type: ignore[arg-type]

    def action_choose(self) -> None:
        if self.current is not None:
            self.post_message(self.Chosen(self, self.current))  # type: ignore[arg-type]

    def on_click(self, event: events.Click) -> None:
        index = self.scroll_offset.y + event.y - 1
        if event.y > 0 and index < len(self._ids):
            self._move_to(index)
            if event.chain == 2:
                self.action_choose()

    def _move_to(self, index: int) -> None:
        index = max(0, min(index, len(self._ids) - 1))
        if index == self._cursor:
            return
        self._cursor = index
        self._keep_in_sight()
        self._redraw()
        self.post_message(self.Moved(self))  # type: ignore[arg-type]

    def _keep_in_sight(self) -> None:
        rows = self.size.height - 1
        top = self.scroll_offset.y
        if rows <= 0:
            return
        if self._cursor < top:
            top = self._cursor
        elif self._cursor >= top + rows:
            top = self._cursor - rows + 1
        self.scroll_to(y=top, animate=False, force=True)
