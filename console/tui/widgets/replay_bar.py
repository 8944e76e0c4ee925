"""A replay's place in its recording: how fast, how far, and where something happened."""

from __future__ import annotations

from rich.style import Style

from console.record.player import Standing
from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.live.replaying import Replaying
from console.tui.render.look import Look
from console.tui.render.spans import Span, width_of
from console.tui.widgets.lines import Lines

_RANK = {"info": 0, "warning": 1, "error": 2}


class ReplayBar(Lines):
    DEFAULT_CSS = "ReplayBar { display: none; background: $panel; }"

    def show(self, view: View) -> None:
        if view.replay is None:
            return
        self.display = True
        self.put([bar(view.replay, deck_of(self).look, self.size.width or self.app.size.width)])


def position(seconds: float) -> str:
    """3:07, 1:02:03."""
    whole = max(0, int(seconds))
    minutes = f"{whole // 60 % 60}:{whole % 60:02}"
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}" if whole >= 3600 else minutes


def pace(standing: Standing) -> str:
    return f"{standing.speed:g}×"


def bar(replay: Replaying, look: Look, width: int) -> list[Span]:
    palette, glyphs, standing = look.palette, look.glyphs, replay.standing
    state = glyphs.decoding if standing.playing else "‖"
    left: list[Span] = [
        (f" {state} ", palette.good if standing.playing else palette.watch),
        (f"{pace(standing):<6}", palette.text if standing.speed != 1 else palette.dim),
        (f"{position(standing.elapsed)} ", palette.text),
    ]
    right: list[Span] = [(f" {position(standing.total)} ", palette.dim)]
    room = width - width_of(left) - width_of(right)
    return [*left, *(_track(replay, look, room) if room > 4 else ()), *right]


def _track(replay: Replaying, look: Look, width: int) -> list[Span]:
    palette, glyphs, standing = look.palette, look.glyphs, replay.standing
    styles = {0: palette.accent, 1: palette.watch, 2: palette.bad}
    ranks: dict[int, int] = {}
    for unix, severity in replay.marks:
        cell = _cell(unix, standing, width)
        ranks[cell] = max(ranks.get(cell, 0), _RANK.get(severity, 0))
    here = _cell(standing.at, standing, width)
    cells: list[Span] = []
    for cell in range(width):
        if cell == here:
            cells.append((glyphs.ready, palette.title))
        elif cell in ranks:
            cells.append((glyphs.failed if ranks[cell] == 2 else glyphs.tee_down, styles[ranks[cell]]))
        else:
            passed = cell < here
            cells.append((glyphs.bar if passed else glyphs.bar_empty, palette.accent if passed else palette.faint))
    return _joined(cells)


def _cell(unix: float, standing: Standing, width: int) -> int:
    share = (unix - standing.first) / standing.total if standing.total > 0 else 0.0
    return min(max(round(share * (width - 1)), 0), width - 1)


def _joined(cells: list[Span]) -> list[Span]:
    out: list[tuple[str, Style]] = []
    for text, style in cells:
        if out and out[-1][1] == style:
            out[-1] = (out[-1][0] + text, style)
        else:
            out.append((text, style))
    return list(out)
