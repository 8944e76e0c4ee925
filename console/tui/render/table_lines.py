"""Who holds which blocks, in words: a request's letter, how many blocks it has, and their numbers in its own order."""

from __future__ import annotations

from collections.abc import Mapping

from console.plain.blocks import runs
from console.tui.live.badges import letter
from console.tui.live.steps import Moment
from console.tui.render.figures import count
from console.tui.render.look import Look
from console.tui.render.spans import Span, fit, middle, wrapped

_NAME, _BLOCKS = 14, 6
_BEFORE = 3 + _NAME + 1 + _BLOCKS + 2
"""Cells left of the numbers."""


def table_lines(
    moment: Moment, badges: Mapping[str, int], picked: str | None, width: int, look: Look
) -> list[list[Span]]:
    """Neighbours that follow each other as ``4-9``, shared ones with a ``*``. The request ``picked`` stands out."""
    palette = look.palette
    titles = f"   {'request':<{_NAME}} {'blocks':>{_BLOCKS}}  "
    lines: list[list[Span]] = [[(titles, palette.dim), ("TABLE: blocks in their order", palette.dim)]]
    shared = {block for block, references in moment.references.items() if references > 1}
    for table in sorted(moment.tables, key=lambda table: badges.get(table.request_id, 0)):
        badge = badges.get(table.request_id, 0)
        hue = palette.hues[badge % len(palette.hues)]
        name = middle(table.request_id, _NAME, look.glyphs.ellipsis)
        style = palette.title if table.request_id == picked else palette.text
        first, *rest = wrapped(runs(table.blocks, shared), max(8, width - _BEFORE)) or [""]
        line: list[Span] = [(f" {letter(badge)} ", hue.bright), *fit([(name, style)], _NAME, look.glyphs.ellipsis)]
        line.append((f" {count(len(table.blocks)):>{_BLOCKS}}  ", palette.text))
        lines.append([*line, (first, hue.bright)])
        lines += [[(" " * _BEFORE + more, hue.bright)] for more in rest]
    if not moment.tables:
        lines.append([("   nobody holds a block", palette.dim)])
    return lines
