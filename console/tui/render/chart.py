"""A worker's KV-cache use and tokens per second over time, drawn by plotext.

KV use is a line on the left scale (0-100 %), in the colour of its band; tokens per second are sparse dots on the right
one: they differ by shape where colour is missing. What is not known leaves a gap; few tokens are not drawn as none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import plotext
from rich.style import Style

from console.tui.live.history import Sample
from console.tui.render.figures import count
from console.tui.render.look import Look
from console.tui.render.spans import Span
from console.tui.render.states import kv_band

SMALLEST_WIDTH, SMALLEST_HEIGHT = 26, 4
_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_AXIS = 2  # lines below the canvas
_DOTS = 4  # of a line, one above the other
_MARGINS = 10  # cells beside the canvas: both scales and their axes


def dots(width: int) -> int:
    """How many samples a chart of this width can tell apart: two per cell."""
    return max(2, (width - _MARGINS) * 2)


def chart(samples: Sequence[Sample], span_s: float, width: int, height: int, look: Look) -> list[list[Span]]:
    """``height`` lines of ``width`` cells. Samples are evenly spaced, the last one is now."""
    last = max(1, len(samples) - 1)
    top = _ceiling(max((sample.tokens_per_s or 0.0 for sample in samples), default=0.0))
    halves = (0.0, 0.5, 1.0) if height > 6 else (0.0, 1.0)
    inks = _Inks(look.palette.faint)
    plotext.terminal.limit(False, False)
    figure: Any = plotext.figure
    figure.clear.data()
    figure.clear.settings()
    figure.theme("colorless")
    figure.canvas("default")
    figure.plot_size(width, height)
    figure.axes(False, side="upper", axis=0)
    _scale(figure.ruler(0, 0), last, [(last * part, _ago(span_s * (1 - part))) for part in (0.0, 0.5, 1.0)])
    _scale(figure.ruler(1, 0), 100, [(100 * part, f"{100 * part:3.0f}%") for part in halves])
    _scale(figure.ruler(1, 1), top, [(top * part, f"{count(top * part):<4}") for part in halves])
    tokens = [(x, mean) for x in range(0, len(samples), 2) if (mean := _mean_tokens(samples[x : x + 2])) is not None]
    if tokens:
        # The lowest line is that of nothing: whatever is more stands above it, below what a busier time left room for.
        least = top * (_DOTS - 0.4) / (_DOTS * max(1, height - _AXIS) - 1)
        tokens = [(x, max(mean, least) if mean > 0 else 0.0) for x, mean in tokens]
        marker = inks.marker(look.palette.series, look.glyphs.sparse_marker)
        figure.draw(figure.signal([x for x, _ in tokens], [y for _, y in tokens], marker=marker, yside="right"))
    uses = [(x, s.kv_use) for x, s in enumerate(samples) if s.kv_use is not None]
    if uses:
        markers = [inks.marker(kv_band(use, look)[1], look.glyphs.marker) for _, use in uses]
        signal = figure.signal([x for x, _ in uses], [use * 100 for _, use in uses], marker=markers, yside="left")
        for position in range(1, len(uses)):
            signal.line(position, uses[position][0] - uses[position - 1][0] == 1)
        figure.draw(signal)
    return inks.spans(figure.build().string())


class _Inks:
    """Palette numbers that carry the console's own styles through plotext's output."""

    def __init__(self, plain: Style) -> None:
        self._plain = plain
        self._markers: dict[Style, Any] = {}

    def marker(self, style: Style, glyph: str) -> Any:
        if style not in self._markers:
            pixel = plotext.pixel(foreground=len(self._markers) + 1)
            self._markers[style] = plotext.marker(glyph, pixel)
        return self._markers[style]

    def spans(self, ansi: str) -> list[list[Span]]:
        styles = {f"38;5;{number}": style for number, style in enumerate(self._markers, start=1)}
        lines: list[list[Span]] = []
        for line in ansi.splitlines():
            spans: list[Span] = []
            style = self._plain
            for index, piece in enumerate(_SGR.split(line)):
                if index % 2:
                    style = styles.get(piece, self._plain)
                elif piece:
                    spans.append((piece, style))
            lines.append(spans)
        return lines


def _scale(ruler: Any, high: float, ticks: Sequence[tuple[float, str]]) -> None:
    ruler.lim(0, high)
    ruler.ticks([position for position, _ in ticks], [label for _, label in ticks])


def _mean_tokens(samples: Sequence[Sample]) -> float | None:
    known = [sample.tokens_per_s for sample in samples if sample.tokens_per_s is not None]
    return sum(known) / len(known) if known else None


def _ago(seconds: float) -> str:
    if seconds <= 0:
        return "now"
    return f"-{seconds / 60:g}m" if seconds >= 60 else f"-{seconds:g}s"


def _ceiling(value: float) -> float:
    """The next round number: 1, 2 or 5 times a power of ten, at least 10."""
    if not 10 < value < math.inf:
        return 10.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)
