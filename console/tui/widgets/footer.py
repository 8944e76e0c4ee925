"""The last line: the keys that do something here."""

from __future__ import annotations

from collections.abc import Sequence

from console.tui.deck import deck_of
from console.tui.render.spans import Span, width_of
from console.tui.widgets.lines import Lines

Hint = tuple[str, str]


class Footer(Lines):
    def show(self, hints: Sequence[Hint]) -> None:
        """As many hints as fit, the first ones first; the last one always."""
        palette = deck_of(self).look.palette
        pieces: list[list[Span]] = [[(f" {key}", palette.key), (f" {word} ", palette.dim)] for key, word in hints]
        room = self.size.width - width_of(pieces[-1]) if pieces else 0
        line: list[Span] = []
        for piece in pieces[:-1]:
            room -= width_of(piece)
            if room >= 0:
                line += piece
        self.put([[*line, *(pieces[-1] if pieces else [])]])
