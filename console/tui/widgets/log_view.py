"""The end of a log, as it is written: text and nothing but text, however much of it comes."""

from __future__ import annotations

import codecs
from collections import deque
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.log_lines import readable
from console.tui.deck import deck_of
from console.tui.render.literal import literal
from console.tui.render.spans import Span, fit, strip

MOST_LINES = 20_000
MOST_CHARS = 4_000
_PAN = 16


class LogView(ScrollView, can_focus=True):
    DEFAULT_CSS = "LogView { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "by(1)", show=False),
        Binding("up,k", "by(-1)", show=False),
        Binding("pagedown,ctrl+f,space", "page(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("home,g", "top", show=False),
        Binding("end,G,f", "follow", show=False),
        Binding("right,l", "pan(1)", show=False),
        Binding("left,h", "pan(-1)", show=False),
    ]

    class Let(Message):
        """It follows the end from now on, or does not any more."""

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(id=name)
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._open = ""
        self._needle = ""
        self._seen: list[str] | None = None
        self._pan = 0
        self._error = ""
        self.following = True

    @property
    def columns(self) -> int:
        """Cells of a line: without the scroll bar, whose place is always kept."""
        return self.scrollable_content_region.width

    @property
    def lines(self) -> int:
        return len(self._lines)

    def clear(self) -> None:
        self._lines.clear()
        self._decoder.reset()
        self._open = self._error = ""
        self.following = True
        self._changed()

    def feed(self, data: bytes) -> None:
        """More of the log; the last line may still be open."""
        *whole, self._open = (self._open + self._decoder.decode(data)).replace("\r", "\n").split("\n")
        self._open = self._open[-MOST_CHARS:]
        dropped = max(0, len(self._lines) + len(whole) - MOST_LINES)
        self._lines.extend(part[:MOST_CHARS] for line in whole if line for part in readable(line[:MOST_CHARS]))
        self._error = ""
        self._changed(dropped)

    def fail(self, error: str) -> None:
        """Why no more comes; what is there stays."""
        self._error = error
        self._changed()

    def filter(self, needle: str) -> None:
        self._needle = needle.casefold()
        self._changed()

    def _changed(self, dropped: int = 0) -> None:
        self._seen = None
        rows = len(self._visible())
        at_end = self.following
        self.virtual_size = Size(self.columns, rows)
        if at_end:
            self.scroll_to(y=max(0, rows - self.size.height), animate=False, force=True)
        elif dropped and not self._needle:
            self.scroll_to(y=max(0, self.scroll_offset.y - dropped), animate=False, force=True)
        self.refresh()

    def _visible(self) -> list[str]:
        if self._seen is None:
            needle = self._needle
            every = [*self._lines, *([self._open] if self._open else [])]
            self._seen = [line for line in every if needle in line.casefold()] if needle else every
            if self._error:
                self._seen.append(f"── {self._error}")
        return self._seen

    def render_line(self, y: int) -> Strip:
        look = deck_of(self).look
        lines = self._visible()
        index = self.scroll_offset.y + y
        spans: list[Span] = []
        if index < len(lines):
            text = literal(lines[index])
            style = look.palette.watch if self._error and index == len(lines) - 1 else look.palette.text
            spans = fit([(text[self._pan :], style)], self.columns, look.glyphs.ellipsis)
        elif y == 0 and not lines:
            spans = [("no line contains that" if self._needle else "nothing in this log yet", look.palette.dim)]
        return strip(spans, self.columns, self.rich_style)

    def on_resize(self) -> None:
        self._changed()

    def action_by(self, by: int) -> None:
        self._scroll(self.scroll_offset.y + by)

    def action_page(self, by: int) -> None:
        self._scroll(self.scroll_offset.y + by * max(1, self.size.height - 1))

    def action_top(self) -> None:
        self._scroll(0)

    def action_follow(self) -> None:
        self._scroll(len(self._visible()))

    def action_pan(self, by: int) -> None:
        self._pan = max(0, min(MOST_CHARS, self._pan + by * _PAN))
        self.refresh()

    def on_mouse_scroll_up(self) -> None:
        if self.following:
            self.following = False
            self.post_message(self.Let())

    def _scroll(self, to: int) -> None:
        last = max(0, len(self._visible()) - self.size.height)
        to = max(0, min(to, last))
        if self.following != (to >= last):
            self.following = not self.following
            self.post_message(self.Let())
        self.scroll_to(y=to, animate=False, force=True)
        self.refresh()
