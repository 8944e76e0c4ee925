"""What stands in for a screen on a terminal that is too small for it."""

from __future__ import annotations

from textual.strip import Strip
from textual.widget import Widget

from console.tui.deck import deck_of
from console.tui.render.spans import strip

SMALLEST_WIDTH, SMALLEST_HEIGHT = 60, 16


def too_small(width: int, height: int) -> bool:
    return width < SMALLEST_WIDTH or height < SMALLEST_HEIGHT


class TooSmall(Widget):
    DEFAULT_CSS = "TooSmall { display: none; width: 1fr; height: 1fr; }"

    def render_line(self, y: int) -> Strip:
        palette = deck_of(self).look.palette
        width, height = self.app.size
        words = ["too small", f"{width}×{height}", f"need {SMALLEST_WIDTH}×{SMALLEST_HEIGHT}"]
        line = words[y] if y < len(words) else ""
        return strip([(line, palette.watch if y == 0 else palette.dim)], self.size.width, self.rich_style)
