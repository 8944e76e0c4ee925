"""A few lines of coloured text. Only lines that changed are drawn again."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from console.tui.render.spans import Span, Spans, strip


class Lines(Widget):
    DEFAULT_CSS = "Lines { width: 1fr; height: 1; }"

    def __init__(self, *, name: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=name, classes=classes)
        self._lines: list[list[Span]] = []

    def put(self, lines: Sequence[Spans]) -> None:
        """Show these lines; what lies below the widget's height is not seen."""
        new: list[list[Span]] = [list(line) for line in lines]
        old, self._lines = self._lines, new
        for y in range(max(len(old), len(new))):
            if y >= len(old) or y >= len(new) or old[y] != new[y]:
                self.refresh(Region(0, y, max(1, self.size.width), 1))

    def render_line(self, y: int) -> Strip:
        spans = self._lines[y] if y < len(self._lines) else []
        return strip(spans, self.size.width, self.rich_style)
