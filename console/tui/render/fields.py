"""Names and values in columns."""

from __future__ import annotations

from collections.abc import Sequence

from console.tui.render.figures import UNKNOWN
from console.tui.render.look import Look
from console.tui.render.spans import Span, fit

Field = tuple[str, str]
_NAME = 10


def fields(facts: Sequence[Field], width: int, look: Look, columns: int = 2, indent: int = 2) -> list[list[Span]]:
    """The facts, filled row by row; a value that is empty is unknown."""
    palette = look.palette
    each = max(_NAME + 4, (width - indent) // columns)
    lines: list[list[Span]] = []
    for first in range(0, len(facts), columns):
        line: list[Span] = [(" " * indent, palette.dim)]
        for name, value in facts[first : first + columns]:
            shown = [(f"{name:<{_NAME}}", palette.dim), (value or UNKNOWN, palette.text if value else palette.unknown)]
            line += [*fit(shown, each - 1, look.glyphs.ellipsis), (" ", palette.dim)]
        lines.append(line)
    return lines
