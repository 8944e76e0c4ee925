"""Coloured text of one line: pieces with a style, cut and padded by terminal cells.

``strip`` is the only door from text to the screen, and cleans whatever passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from console.tui.render.literal import literal

Span = tuple[str, Style]
Spans = Sequence[Span]


def width_of(spans: Iterable[Span]) -> int:
    """Terminal cells that the spans take."""
    return sum(cell_len(literal(text)) for text, _ in spans)


def fit(spans: Spans, width: int, ellipsis: str = "…", *, right: bool = False) -> list[Span]:
    """The spans in exactly ``width`` cells: padded with spaces, or cut with an ellipsis at the end."""
    if width <= 0:
        return []
    clean = [(literal(text), style) for text, style in spans]
    used = sum(cell_len(text) for text, _ in clean)
    if used <= width:
        pad = (" " * (width - used), Style.null())
        return [pad, *clean] if right else [*clean, pad]
    out: list[Span] = []
    left = width - 1
    for text, style in clean:
        cells = cell_len(text)
        if cells > left:
            out.append((set_cell_size(text, left) + ellipsis, style))
            break
        out.append((text, style))
        left -= cells
    return out


def apart(left: Spans, right: Spans, width: int) -> list[Span]:
    """Two ends of a line; the right one stays whole when both don't fit."""
    room = width - width_of(right)
    return [*fit(left, room), *right] if room > 0 else fit(right, width)


def strip(spans: Spans, width: int, base: Style) -> Strip:
    """A line of exactly ``width`` cells; ``base`` lies under every span."""
    segments = [Segment(text, base + style) for text, style in fit(spans, width) if text]
    return Strip(segments, width).simplify()


def wrapped(text: str, width: int) -> list[str]:
    """The text on lines of at most ``width`` cells, broken at spaces where there are some; at least one line."""
    lines = [""]
    for word in literal(text).split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width:
            lines[-1] = joined
            continue
        pieces = chop_cells(word, max(2, width)) or [""]
        lines += pieces
    return lines[1:] if len(lines) > 1 and not lines[0] else lines


def middle(text: str, width: int, ellipsis: str = "…") -> str:
    """The text in at most ``width`` cells, cut in its middle: numbered names differ at their end."""
    text = literal(text)
    if cell_len(text) <= width or width < 3:
        return text
    tail = (width - 1) // 2
    end = next(text[start:] for start in range(len(text) + 1) if cell_len(text[start:]) <= tail)
    return set_cell_size(text, width - 1 - cell_len(end)) + ellipsis + end


def greyed(spans: Spans, grey: Style) -> list[Span]:
    """The same text without its colours: what is old must not look alive."""
    return [(text, grey) for text, _ in spans]
