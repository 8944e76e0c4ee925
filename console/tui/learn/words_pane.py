"""The words of a lesson: as much of the sheet as there is room for, and below it what can be pressed."""

from __future__ import annotations

from typing import Final

from textual.geometry import Size

from console.tui.deck import deck_of
from console.tui.learn.drawing import Line, prompt
from console.tui.learn.standing import Standing
from console.tui.learn.telling import columns, news_at, pressed, told
from console.tui.widgets.lines import Lines

WIDE_FROM: Final = 96
"""Columns from which on the live view stands beside the words, and not below them."""

_LEAST_WORDS, _LEAST_LIVE = 7, 8


class WordsPane(Lines):
    """``longer``: some of the sheet is below what is seen of it."""

    def __init__(self) -> None:
        super().__init__(name="words")
        self.longer = False
        self._fitted: tuple[int, int] = (0, 0)

    def show(self, standing: Standing, elsewhere: str, now_mono: float, room: Size) -> None:
        """``room`` is for the words and the live view together."""
        wide = room.width >= WIDE_FROM
        look = deck_of(self).look
        across = columns(standing, room.width) if wide else room.width
        width = across - (3 if wide else 2)
        lines = told(standing, elsewhere, now_mono, width, look)
        height = room.height - 2 if wide else _share(len(lines) + 3, room)
        if (fit := (across if wide else 0, 0 if wide else height)) != self._fitted:
            self._fitted = fit
            self.styles.width = across if wide else "1fr"
            self.styles.height = "1fr" if wide else height
        self.put(self._cut(standing, lines, width, height))

    def page_on(self, standing: Standing) -> None:
        standing.top += max(1, self.size.height - 2)

    def page_back(self, standing: Standing) -> None:
        standing.top = max(0, standing.top - max(1, self.size.height - 2))

    def _cut(self, standing: Standing, lines: list[Line], width: int, height: int) -> list[Line]:
        """The part of the sheet that is read now."""
        look = deck_of(self).look
        keys = prompt(pressed(standing), width, look)
        if standing.fresh and len(lines) + len(keys) > height:
            standing.top = news_at(standing, width, look)
        standing.fresh = False
        if standing.top >= len(lines):
            standing.top = 0
        self.longer = len(lines) > standing.top + max(1, height - len(keys))
        if self.longer:
            shown = max(1, height - 1)
            return [*lines[standing.top : standing.top + shown], *prompt([("→", "more of it")], width, look)]
        rest = lines[standing.top :]
        space: list[Line] = [[]] if len(rest) < height - len(keys) else []
        return [*rest, *space, *keys]


def _share(wanted: int, room: Size) -> int:
    """Lines for the words, where the live view stands below them."""
    height = room.height - 1
    return max(min(_LEAST_WORDS, height), min(wanted, height - _LEAST_LIVE))
