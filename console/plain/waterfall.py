"""A request's stages on one time line, a bar each."""

from __future__ import annotations

from collections.abc import Sequence

from console import figures
from console.text import fit, literal, pad
from console.text import width as cell_width
from control_plane.contracts.fleet import Stage

_EIGHTHS = " ▏▎▍▌▋▊▉"


def waterfall(stages: Sequence[Stage], total_s: float, *, width: int = 72, open_ended: bool = False) -> list[str]:
    """One line per stage: name, duration, bar. ``open_ended``: the last stage still goes on."""
    if not stages:
        return []
    end = max([total_s, *(stage.start_s + stage.duration_s for stage in stages)])
    end = end if end > 0 else 1.0
    names = min(16, max(cell_width(literal(stage.name)) for stage in stages))
    cells = max(0, width - names - 13)
    lines = []
    for index, stage in enumerate(stages):
        going_on = open_ended and index == len(stages) - 1
        name = pad(fit(literal(stage.name), names), names)
        took = pad(figures.seconds(max(0.0, stage.duration_s)), 9, right=True)
        bar = _bar(stage.start_s / end, stage.duration_s / end, cells) if cells else ""
        lines.append(fit(f"{name} {took} │{bar}{'▶' if going_on else ''}", width))
    return lines


def _bar(start: float, length: float, cells: int) -> str:
    """A bar in eighths of a cell; the shortest stage still shows."""
    first = min(cells - 1, int(min(max(start, 0.0), 1.0) * cells))
    eighths = max(1, round(min(max(length, 0.0), 1.0) * cells * 8))
    eighths = min(eighths, (cells - first) * 8)
    full, rest = divmod(eighths, 8)
    return " " * first + "█" * full + (_EIGHTHS[rest] if rest else "")


def meter(fraction: float, cells: int = 10) -> str:
    """How full something is; whatever is not empty shows."""
    full = min(cells, max(round(fraction * cells), 1 if fraction > 0 else 0))
    return "▓" * full + "░" * (cells - full)
