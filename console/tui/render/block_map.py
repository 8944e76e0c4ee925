"""The KV cache as a map: a cell for each block, or for each group of so many neighbours, in the pool's own order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from rich.style import Style

from console.tui.live.badges import letter
from console.tui.live.steps import Moment
from console.tui.render.bar import kv_bar
from console.tui.render.figures import UNKNOWN, count
from console.tui.render.look import Look
from console.tui.render.spans import Span

_LABEL = 7
_ROUND = 8
_WIDER = (3, 2)
_NARROW = 60  # cells below which the sums have no bar


class Use(Enum):
    FREE = 0
    CACHED_FREE = 1
    USED = 2
    SHARED = 3


@dataclass(frozen=True, slots=True)
class Cell:
    """``blocks`` neighbours, and what most of them are; ``owner`` is the request that holds them."""

    use: Use
    owner: str = ""
    blocks: int = 1


def cells(moment: Moment, badges: Mapping[str, int], group: int = 1, picked: str | None = None) -> list[Cell]:
    """The whole pool; every block is in exactly one cell. Of those who share a block its owner is ``picked``, else the
    first to come. Free blocks of which nobody knows whether they are cached are FREE."""
    owners: dict[int, str] = {}
    for table in sorted(moment.tables, key=lambda table: (table.request_id != picked, badges.get(table.request_id, 0))):
        for block in table.blocks:
            owners.setdefault(block, table.request_id)
    total = moment.step.total_blocks
    cached = moment.cached_free or frozenset()
    first = first_block(total, owners, cached)
    singles = [_single(block, owners, moment.references, cached) for block in range(first, first + total)]
    if group <= 1:
        return singles
    return [_most(singles[start : start + group]) for start in range(0, total, group)]


def first_block(total: int, owners: Mapping[int, str], cached: frozenset[int]) -> int:
    """vLLM keeps block 0 of its pool for itself, so that the others are 1 to ``total``; a pool that hands out block 0
    counts from there."""
    return 0 if (0 in owners or 0 in cached) and total not in owners and total not in cached else 1


def _single(block: int, owners: Mapping[int, str], references: Mapping[int, int], cached: frozenset[int]) -> Cell:
    owner = owners.get(block)
    if owner is not None:
        return Cell(Use.SHARED if references.get(block, 0) > 1 else Use.USED, owner)
    return Cell(Use.CACHED_FREE if block in cached else Use.FREE)


def _most(group: Sequence[Cell]) -> Cell:
    """What most of the group is; used before free where it is even, so that a single block does not vanish."""
    counts = Counter((cell.use, cell.owner) for cell in group)
    use, owner = max(counts, key=lambda what: (counts[what], what[0].value))
    return Cell(use, owner, len(group))


@dataclass(frozen=True, slots=True)
class Shape:
    """``across`` cells in a line, a round number; ``group`` blocks in a cell, a power of two; ``wide`` columns each."""

    across: int
    group: int
    wide: int


def shape(total: int, width: int, height: int) -> Shape:
    """The widest cells with which the whole pool fits into ``height`` lines, one for each block if that is possible."""
    for wide in (*_WIDER, 1):
        across = _across(width, wide)
        if -(-total // across) <= height:
            return Shape(across, 1, wide)
    across, group = _across(width, 1), 2
    while -(-total // group) > across * max(1, height):
        group *= 2
    return Shape(across, group, 1)


def _across(width: int, wide: int) -> int:
    room = max(1, (width - _LABEL - 1) // wide)
    return room // _ROUND * _ROUND or room


def lines_wanted(total: int, width: int, comfortable: int) -> int:
    """Lines that a cell for each block takes: wider cells, if those are no more than is comfortable."""
    lines = [-(-total // _across(width, wide)) for wide in (*_WIDER, 1)]
    return next((wanted for wanted in lines if wanted <= comfortable), lines[-1])


def map_lines(
    moment: Moment, badges: Mapping[str, int], picked: str | None, width: int, height: int, look: Look
) -> list[list[Span]]:
    """At most ``height`` lines; the blocks of the request ``picked`` stand out."""
    palette = look.palette
    cut = shape(moment.step.total_blocks, width, height)
    every = cells(moment, badges, cut.group, picked)
    begin = first_block_of(moment)
    lines: list[list[Span]] = []
    for start in range(0, len(every), cut.across):
        line: list[Span] = [(f"{begin + start * cut.group:>{_LABEL - 1}} ", palette.faint)]
        for cell in every[start : start + cut.across]:
            glyph, style = _drawn(cell, badges, picked, look)
            glyph = f"{glyph:^{cut.wide}}"
            if len(line) > 1 and line[-1][1] == style:
                line[-1] = (line[-1][0] + glyph, style)
            else:
                line.append((glyph, style))
        lines.append(line)
    return lines


def first_block_of(moment: Moment) -> int:
    owners = {block: table.request_id for table in moment.tables for block in table.blocks}
    return first_block(moment.step.total_blocks, owners, moment.cached_free or frozenset())


def _drawn(cell: Cell, badges: Mapping[str, int], picked: str | None, look: Look) -> tuple[str, Style]:
    palette, glyphs = look.palette, look.glyphs
    if cell.use is Use.FREE:
        return glyphs.free, palette.edge
    if cell.use is Use.CACHED_FREE:
        return glyphs.cached_free, palette.dim
    badge = badges.get(cell.owner, 0)
    hue = palette.hues[badge % len(palette.hues)]
    style = hue.picked if cell.owner == picked else hue.field
    sign = letter(badge)
    return (sign.upper(), style + Style(bold=True)) if cell.use is Use.SHARED else (sign, style)


def map_head(moment: Moment, width: int, lines: int, look: Look) -> list[Span]:
    """The sums, and what a cell stands for."""
    palette, glyphs = look.palette, look.glyphs
    step = moment.step
    total = step.total_blocks
    group = shape(total, width, lines).group
    narrow = width < _NARROW
    line: list[Span] = [(" KV " if narrow else " KV cache ", palette.title)]
    line += kv_bar(step.used_blocks / total if total else None, 7 if narrow else 27 if width >= 100 else 15, look)
    if not moment.complete:
        line.append(("  steps were lost: tables not whole", palette.bad))
    size = f" of {moment.block_size} tokens" if moment.block_size and width >= 100 else ""
    line.append((f" of {count(total or None)}" if narrow else f"  {count(total or None)} blocks{size}", palette.dim))
    line.append((f", {group} a cell: " if group > 1 and lines else ": ", palette.dim))
    line += [(count(step.used_blocks), palette.text), (" used", palette.dim)]
    shared = sum(references > 1 for references in moment.references.values())
    comma: Span = (" " if narrow and shared else ", ", palette.dim)
    if shared or width >= 100:
        line += [comma, (count(shared), palette.text), (" shared" if narrow else " shared A", palette.dim)]
    line += [comma, (count(step.cached_free_blocks), palette.text), (f" cached {glyphs.cached_free}", palette.dim)]
    line += [comma, (count(step.free_blocks), palette.text), (f" free {glyphs.free}", palette.dim)]
    if moment.complete and moment.cached_free is None and step.cached_free_blocks:
        line.append((f"  which are cached: {UNKNOWN}", palette.watch))
    return line
