"""What just happened because of the operator, and what still goes on: drains, results, errors."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style

from console.tui.deck import deck_of
from console.tui.notice import Notice
from console.tui.render.look import Look
from console.tui.render.spans import Spans
from console.tui.widgets.lines import Lines

MOST = 4


class NoticeBar(Lines):
    DEFAULT_CSS = "NoticeBar { display: none; }"

    def show(self, notices: Sequence[Notice]) -> None:
        """The newest few, newest last; no height at all when there is none."""
        look = deck_of(self).look
        lines: list[Spans] = []
        for notice in notices[-MOST:]:
            glyph, style = _face(notice.severity, look)
            lines.append(
                [(f" {glyph} ", style), (notice.text, style if notice.severity != "info" else look.palette.text)]
            )
        if len(lines) != (self.styles.height.value if self.display and self.styles.height else 0):
            self.display = bool(lines)
            self.styles.height = max(1, len(lines))
        self.put(lines)


def _face(severity: str, look: Look) -> tuple[str, Style]:
    palette, glyphs = look.palette, look.glyphs
    faces = {
        "info": (glyphs.done, palette.good),
        "lost": (glyphs.failed, palette.bad),
        "progress": (glyphs.draining, palette.accent),
        "warning": (glyphs.busy, palette.watch),
        "error": (glyphs.failed, palette.bad),
    }
    return faces.get(severity, faces["info"])
