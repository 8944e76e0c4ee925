"""Lines that may be more than there is room for, with keys to go through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from console.tui.render.spans import Spans
from console.tui.widgets.lines import Lines


class ScrolledLines(Lines, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
    ]

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self._all: list[Spans] = []
        self._top = 0

    def show(self, lines: Sequence[Spans]) -> None:
        """Other lines begin at their first."""
        if self._all != list(lines):
            self._all, self._top = list(lines), 0
        self._draw()

    def _draw(self) -> None:
        height = self.size.height
        self._top = max(0, min(self._top, len(self._all) - height))
        self.put(self._all[self._top : self._top + height])

    def action_move(self, by: int) -> None:
        self._top += by
        self._draw()

    def action_page(self, by: int) -> None:
        self.action_move(by * max(1, self.size.height - 1))

    def on_resize(self) -> None:
        self._draw()
