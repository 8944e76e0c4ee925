"""The batch step by step, drawn: how long each step took, how many tokens it had, and what it did with each request."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.style import Style

from console.tui.live.badges import letter
from console.tui.live.batch import Column, GridRow, Mark, Sort, Standing
from console.tui.live.loads import finite
from console.tui.render.figures import UNKNOWN, count, duration, percent
from console.tui.render.look import Look
from console.tui.render.spans import Span, fit, middle
from control_plane.contracts.step import EngineStep

_BADGE = 3
_NUMBERS = (("ctx", 5), ("blk", 4), ("cach", 5))
_PRIORITY = 4
_SLOW = 2.0


@dataclass(frozen=True, slots=True)
class Layout:
    """Cells of each part of a line; ``note`` and ``priority`` are 0 where they are left out."""

    name: int
    steps: int
    note: int
    priority: int

    @property
    def before(self) -> int:
        """Cells left of the steps."""
        return _BADGE + self.name + 1 + self.priority


def layout(width: int, *, priority: bool) -> Layout:
    name = 9 if width < 100 else 14 if width < 140 else 20
    note = 0 if width < 70 else 14 if width < 100 else 20
    prio = _PRIORITY if priority else 0
    numbers = sum(cells + 1 for _, cells in _NUMBERS)
    return Layout(name, max(4, width - _BADGE - name - 1 - prio - numbers - (note + 1 if note else 0)), note, prio)


def ruler(columns: Sequence[Column], cursor: int, parts: Layout, rows: str, sort: Sort, look: Look) -> list[Span]:
    """The titles, and the numbers of the first step in sight and of the one that is looked at."""
    palette, glyphs = look.palette, look.glyphs
    dim = palette.dim
    line: list[Span] = [(" " * _BADGE, dim), *fit([(rows, dim)], parts.name, glyphs.ellipsis), (" ", dim)]
    if parts.priority:
        line += [*fit([("pri", _title(sort is Sort.PRIORITY, look))], _PRIORITY - 1, right=True), (" ", dim)]
    line += _axis(columns, cursor, parts.steps, look)
    for (title, cells), by in zip(_NUMBERS, (Sort.CONTEXT, Sort.BLOCKS, None), strict=True):
        line += [(" ", dim), *fit([(title, _title(sort is by, look))], cells, right=True)]
    if parts.note:
        line += [(" ", dim), (f"{'sorted ' if parts.note >= 20 else ''}by {sort.value}"[: parts.note], palette.faint)]
    return line


def _title(sorted_by_it: bool, look: Look) -> Style:
    return look.palette.accent + Style(bold=True) if sorted_by_it else look.palette.dim


def _axis(columns: Sequence[Column], cursor: int, width: int, look: Look) -> list[Span]:
    palette, glyphs = look.palette, look.glyphs
    offset = width - len(columns)
    first = next((column.step for column in columns if column.step is not None), None)
    here = columns[cursor].step if 0 <= cursor < len(columns) else None
    if first is None or here is None:
        return [(glyphs.across * width, palette.edge)]
    at = offset + cursor
    label, begin = str(here.step), str(first.step)
    left = glyphs.across * at
    if len(label) + 2 <= at:
        left = left[: at - len(label) - 2] + f" {label} "
        if first is not here and offset + len(begin) + 2 <= at - len(label) - 2:
            left = glyphs.across * offset + begin + " " + left[offset + len(begin) + 1 :]
    return [
        *_two(left, str.isdigit, palette.dim, palette.edge),
        (glyphs.pointer, palette.key),
        (glyphs.across * (width - at - 1), palette.edge),
    ]


def _two(text: str, which: Callable[[str], bool], yes: Style, no: Style) -> list[Span]:
    """One text in two styles."""
    spans: list[Span] = []
    for char in text:
        style = yes if which(char) else no
        if spans and spans[-1][1] is style:
            spans[-1] = (spans[-1][0] + char, style)
        else:
            spans.append((char, style))
    return spans


def times(columns: Sequence[Column], cursor: int, parts: Layout, look: Look) -> list[Span]:
    """How long each step took; one that took twice the median stands out."""
    values = [_took(column.step) for column in columns]
    known = sorted(value for value in values if value)
    median = known[len(known) // 2] if known else 0.0
    palette = look.palette

    styles = [palette.watch if (value or 0.0) > _SLOW * median else palette.good for value in values]
    most = duration(known[-1] if known else None)
    told = f"p50 {duration(median or None)} max {most}" if parts.note else f"{duration(median or None)}, max {most}"
    return _profile("step time", values, cursor, parts, styles, told, look)


def uses(columns: Sequence[Column], cursor: int, parts: Layout, look: Look) -> list[Span]:
    """How much of the KV cache was used after each step; where somebody was preempted for want of it stands out."""
    palette = look.palette
    values = [_used(column.step) for column in columns]
    known = [value for value in values if value is not None]
    told = f"{percent(known[0])} → {percent(known[-1])}" if known else UNKNOWN
    styles = [palette.bad if column.step is not None and column.step.preempted else palette.faint for column in columns]
    return _profile("KV used", values, cursor, parts, styles, told, look, top=1.0)


def tokens(columns: Sequence[Column], cursor: int, parts: Layout, budget: int, look: Look) -> list[Span]:
    """How many tokens each step had; ``budget`` is the most that it may have, 0 if that is not known."""
    values = [float(column.step.tokens) if column.step is not None else None for column in columns]
    most = max((value for value in values if value is not None), default=0.0)
    told = f"max {count(most) if values else UNKNOWN}" + (f" of {count(budget)}" if budget else "")
    return _profile("tokens", values, cursor, parts, [look.palette.series] * len(values), told, look)


def _profile(
    title: str,
    values: Sequence[float | None],
    cursor: int,
    parts: Layout,
    styles: Sequence[Style],
    told: str,
    look: Look,
    top: float = 0.0,
) -> list[Span]:
    palette, levels = look.palette, look.glyphs.levels
    top = top or max((value for value in values if value is not None), default=0.0)
    spans: list[Span] = [
        (" " * _BADGE, palette.dim),
        *fit([(title, palette.dim)], parts.before - _BADGE),
        (" " * (parts.steps - len(values)), palette.dim),
    ]
    for index, value in enumerate(values):
        if value is None:
            spans.append((" ", palette.dim))
            continue
        level = min(len(levels) - 1, math.floor(value / top * len(levels))) if top > 0 else 0
        ink = styles[index]
        spans.append((levels[level] if value > 0 else " ", ink + Style(bold=True) if index == cursor else ink))
    return [*spans, (f" {told}", palette.dim)]


def _took(step: EngineStep | None) -> float | None:
    seconds = finite(step.schedule_s + step.execute_s) if step is not None else None
    return max(0.0, seconds) if seconds is not None else None


def _used(step: EngineStep | None) -> float | None:
    return step.used_blocks / step.total_blocks if step is not None and step.total_blocks else None


def row_line(row: GridRow, columns: Sequence[Column], cursor: int, parts: Layout, needs: str, look: Look) -> list[Span]:
    """One request. ``needs`` is said of it while it waits."""
    palette = look.palette
    hue = palette.hues[row.badge % len(palette.hues)]
    here = row.standing is Standing.HERE
    name = palette.text if here else palette.faint
    line: list[Span] = [
        (f" {letter(row.badge)} ", hue.bright if here else palette.faint),
        *fit([(middle(row.request_id, parts.name, look.glyphs.ellipsis), name)], parts.name, look.glyphs.ellipsis),
        (" ", name),
    ]
    if parts.priority:
        line += [
            *fit([("" if row.priority is None else count(row.priority), palette.dim)], _PRIORITY - 1, right=True),
            (" ", palette.dim),
        ]
    line.append((" " * (parts.steps - len(columns)), palette.dim))
    inks = (hue.bright, hue.muted) if row.standing is not Standing.ENDED else (hue.muted, hue.past)
    line += _marks(row.marks, columns, cursor, inks, look)
    values = [row.context, row.blocks, row.row.cached_tokens if row.row is not None else 0]
    for (_, cells), value in zip(_NUMBERS, values, strict=True):
        shown = [(count(value), palette.text)] if here and value else [("" if not here else UNKNOWN, palette.faint)]
        line += [(" ", palette.dim), *fit(shown, cells, right=True)]
    if parts.note:
        line += [(" ", palette.dim), *fit([_note(row, needs, look)], parts.note, look.glyphs.ellipsis)]
    return line


def _marks(
    marks: Sequence[Mark], columns: Sequence[Column], cursor: int, inks: tuple[Style, Style], look: Look
) -> list[Span]:
    """``inks`` are for the column that is looked at, and for the others."""
    spans: list[Span] = []
    for index, (mark, column) in enumerate(zip(marks, columns, strict=True)):
        glyph, style = _cell(mark, column, inks[index != cursor], look)
        if spans and spans[-1][1] == style:
            spans[-1] = (spans[-1][0] + glyph, style)
        else:
            spans.append((glyph, style))
    return spans


def _cell(mark: Mark, column: Column, ink: Style, look: Look) -> Span:
    palette, glyphs = look.palette, look.glyphs
    if column.step is None:
        return glyphs.gap, palette.bad if column.lost else palette.edge
    match mark:
        case Mark.CHUNK:
            return glyphs.chunk, ink
        case Mark.LAST_CHUNK:
            return glyphs.last_chunk, ink
        case Mark.DECODE:
            return glyphs.decode, ink
        case Mark.FINISHED:
            return glyphs.done, palette.title
        case Mark.ABORTED:
            return glyphs.cancelled, palette.watch
        case Mark.FAILED:
            return glyphs.failed, palette.bad
        case Mark.PREEMPTED:
            return glyphs.preempted, palette.bad
        case Mark.WAITING:
            return glyphs.waiting, palette.dim
        case Mark.HELD:
            return glyphs.held, ink
        case _:
            return " ", palette.dim


def _note(row: GridRow, needs: str, look: Look) -> Span:
    palette = look.palette
    note = row.note
    if row.standing is Standing.ENDED:
        return f"{note.what}, {note.output_tokens} out", palette.faint
    if row.standing is Standing.YET_TO_COME:
        return "", palette.faint
    if row.waiting is not None:
        return needs, palette.watch if row.waiting.preempted else palette.dim
    if note.what:
        return f"{note.what} {note.step}", palette.watch if note.what == "resumed" else palette.dim
    if row.row is not None and row.context < row.row.prompt_tokens:
        return f"{count(row.context)}/{count(row.row.prompt_tokens)} prompt", palette.dim
    return (f"{count(row.row.output_tokens)} out" if row.row is not None else "", palette.faint)


def legend(width: int, look: Look) -> list[Span]:
    """What the shapes of the grid mean."""
    wide = width >= 100
    palette, glyphs = look.palette, look.glyphs
    chunk = (glyphs.chunk, "prefill", palette.text)
    last_chunk = (glyphs.last_chunk, "last chunk", palette.text)
    main = (
        (glyphs.decode, "decode", palette.text),
        (glyphs.done, "end", palette.title),
        (glyphs.preempted, "preempted", palette.bad),
        (glyphs.waiting, "waiting", palette.dim),
    )
    rest = (
        (glyphs.held, "skipped", palette.dim),
        (glyphs.gap, "missing steps" if wide else "gap", palette.dim),
    )
    shown = (chunk, last_chunk, *main, *rest) if width >= 70 else (chunk, *main)
    spans: list[Span] = [("   " if wide else " ", palette.dim)]
    for glyph, word, style in shown:
        spans += [(glyph, style), (f" {word}{'  ' if wide else ' '}", palette.dim)]
    return spans


def title(space: int, total: int) -> str:
    """The head of the column of requests: how many there are, where there is no room for all."""
    return f"{space} of {total}" if space < total else "request"
