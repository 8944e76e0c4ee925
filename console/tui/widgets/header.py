"""The first line: where one is, which platform, how fresh what is shown is."""

from __future__ import annotations

from console.record.player import Standing
from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.render.figures import age, clock
from console.tui.render.look import Look
from console.tui.render.spans import Span, apart
from console.tui.widgets.lines import Lines
from console.tui.widgets.replay_bar import position

SILENT_S = 4.0


class Header(Lines):
    def show(self, view: View, trail: str) -> None:
        look = deck_of(self).look
        left: list[Span] = [
            (" InferDeck ", look.palette.title),
            (f"{look.glyphs.crumb} ", look.palette.dim),
            (trail, look.palette.accent),
            (f"  {view.place}", look.palette.faint),
        ]
        if deck_of(self).readonly and view.replay is None:
            left.append(("  read-only", look.palette.watch))
        self.put([apart(left, freshness(view, look, wide=self.size.width >= 100), self.size.width)])


def freshness(view: View, look: Look, *, wide: bool) -> list[Span]:
    """How old the data is, in a word that cannot be missed when it is not live."""
    palette, glyphs = look.palette, look.glyphs
    snapshot = view.snapshot
    tail: list[Span] = [(f" {glyphs.dot} {clock(view.now_unix)} ", palette.dim)] if snapshot else [(" ", palette.dim)]
    if snapshot and wide:
        tail = [(f" {glyphs.dot} v{snapshot.version}", palette.dim), *tail]
    if view.replay is not None:
        return [*_replay(view, view.replay.standing, look), *tail]
    if not view.link.connected:
        if snapshot is None:
            return [(f" {glyphs.lost} connecting ", palette.watch)]
        return [(f" {glyphs.failed} no connection, {age(view.silent_s)} old", palette.bad), *tail]
    if view.paused:
        return [(f" ‖ paused, {age(view.silent_s)} old", palette.watch), *tail]
    silent = view.silent_s or 0.0
    if silent > SILENT_S:
        return [(f" {glyphs.starting} silent for {age(silent)}", palette.watch), *tail]
    return [(f" {glyphs.ready} live", palette.good), (f" {view.link.per_s:.0f}/s", palette.dim), *tail]


def _replay(view: View, standing: Standing, look: Look) -> list[Span]:
    """Nothing that is played back may be taken for live."""
    palette, glyphs = look.palette, look.glyphs
    state = glyphs.decoding if standing.playing else "‖"
    out: list[Span] = [(f" {state} replay", palette.watch)]
    out.append((f" {position(standing.elapsed)}/{position(standing.total)}", palette.dim))
    silent = view.silent_s or 0.0
    if view.snapshot is not None and not view.link.connected:
        out.append((f" {glyphs.failed} no connection, {age(silent)} old", palette.bad))
    elif silent > SILENT_S:
        out.append((f" {glyphs.starting} silent for {age(silent)}", palette.watch))
    return out
