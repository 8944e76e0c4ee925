"""Rows under headings, aligned by terminal cells.

Without a width nothing is cut. With one, no line is wider: the widest columns shrink first, then the least important
ones go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from console.plain.terminal import paint
from console.text import fit, literal, pad, width

R = TypeVar("R")
GAP = 2
SHRUNK = 8


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """One column. ``keep`` orders what goes when room is short (lowest first); ``wide`` only with ``-o wide``."""

    title: str
    value: Callable[[R], str]
    right: bool = False
    wide: bool = False
    keep: int = 5
    style: Callable[[R], str | None] | None = None


@dataclass(frozen=True, slots=True)
class Table:
    lines: list[str]
    dropped: int  # columns that found no room


def table(rows: Sequence[R], columns: Sequence[Column[R]], max_width: int | None = None) -> Table:
    """The table's lines, heading first; cells are made literal here."""
    cells = [[literal(column.value(row)) for column in columns] for row in rows]
    natural = [
        max([width(column.title), *(width(line[index]) for line in cells)]) for index, column in enumerate(columns)
    ]
    shown, widths = _layout(columns, natural, max_width)
    lines = [_line([columns[i].title for i in shown], [columns[i] for i in shown], widths, ["title"] * len(shown))]
    for row, line in zip(rows, cells, strict=True):
        styles = [style(row) if (style := columns[i].style) else None for i in shown]
        lines.append(_line([line[i] for i in shown], [columns[i] for i in shown], widths, styles))
    return Table(lines, len(columns) - len(shown))


def _line(
    cells: Sequence[str], columns: Sequence[Column[R]], widths: Sequence[int], styles: Sequence[str | None]
) -> str:
    parts = []
    for index, (cell, column, cells_wide, style) in enumerate(zip(cells, columns, widths, styles, strict=True)):
        text = fit(cell, cells_wide)
        last = index == len(cells) - 1 and not column.right
        parts.append(paint(text if last else pad(text, cells_wide, right=column.right), style))
    return (" " * GAP).join(parts).rstrip()


def _layout(columns: Sequence[Column[R]], natural: Sequence[int], max_width: int | None) -> tuple[list[int], list[int]]:
    """Which columns are shown, and how wide each is."""
    shown = list(range(len(columns)))
    if max_width is None:
        return shown, list(natural)
    while True:
        widths = _shrunk([natural[i] for i in shown], max_width - GAP * (len(shown) - 1))
        if widths is not None or len(shown) == 1:
            return shown, widths or [max(1, max_width)]
        shown.remove(min(reversed(shown), key=lambda i: columns[i].keep))


def _shrunk(natural: Sequence[int], room: int) -> list[int] | None:
    """The widths made to fit by taking from the widest; None when they can't without losing their meaning."""
    widths = list(natural)
    while (excess := sum(widths) - room) > 0:
        widest = max(widths)
        if widest <= SHRUNK:
            return None
        at = widths.index(widest)
        second = max([w for i, w in enumerate(widths) if i != at], default=0)
        widths[at] = max(SHRUNK, widest - excess, min(second, widest - 1))
    return widths
