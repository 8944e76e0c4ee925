"""A fraction as a horizontal bar."""

from __future__ import annotations

from console.tui.render.figures import percent
from console.tui.render.look import Look
from console.tui.render.spans import Span
from console.tui.render.states import kv_band


def bar(fraction: float | None, width: int, look: Look) -> tuple[str, str]:
    """The filled and the empty part, ``width`` cells together; something is never drawn as nothing."""
    if fraction is None:
        return "", look.glyphs.bar_empty * width
    filled = min(width, max(0, round(fraction * width)))
    if filled == 0 and fraction > 0 and width > 0:
        filled = 1
    return look.glyphs.bar * filled, look.glyphs.bar_empty * (width - filled)


def kv_bar(use: float | None, width: int, look: Look) -> list[Span]:
    """``━━━━────  61% ▲`` in ``width`` cells: bar, number and the mark of the band; the bar goes first if need be."""
    mark, style = kv_band(use, look)
    filled, empty = bar(use, max(0, width - 7), look)
    return [(filled, style), (empty, look.palette.faint), (f"{percent(use):>5} ", style), (mark, style)]
