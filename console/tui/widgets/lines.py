"""A few lines of coloured text. Only the part of a line that changed is drawn again."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from console.tui.render.spans import Span, Spans, strip, width_of


class Lines(Widget):
    DEFAULT_CSS = "Lines { width: 1fr; height: 1; }"

    def __init__(self, *, name: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=name, classes=classes)
        self._lines: list[list[Span]] = []

    def put(self, lines: Sequence[Spans]) -> None:
        """Show these lines; what lies below the widget's height is not seen."""
        new: list[list[Span]] = [list(line) for line in lines]
        old, self._lines = self._lines, new
        width = max(1, self.size.width)
        for y in range(max(len(old), len(new))):
            start, end = changed(old[y] if y < len(old) else [], new[y] if y < len(new) else [], width)
            if start < end:
                self.refresh(Region(start, y, end - start, 1))

    def render_line(self, y: int) -> Strip:
        spans = self._lines[y] if y < len(self._lines) else []
        return strip(spans, self.size.width, self.rich_style)


def changed(old: Spans, new: Spans, width: int) -> tuple[int, int]:
    """The cells, from and up to, in which two lines of ``width`` cells may differ."""
    pairs = enumerate(zip(old, new, strict=False))
    same = next((index for index, (before, after) in pairs if before != after), min(len(old), len(new)))
    if same == len(old) == len(new):
        return 0, 0
    lengths = width_of(old), width_of(new)
    start = min(width_of(new[:same]), width - 1)  # the last cell may be an ellipsis
    if lengths[0] != lengths[1] or lengths[0] > width:
        return start, width
    tail = 0
    while tail < min(len(old), len(new)) - same and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return start, lengths[1] - width_of(new[len(new) - tail :])
