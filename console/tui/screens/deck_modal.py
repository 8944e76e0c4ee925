"""What every dialog has in common: it is painted from the live view, and cannot be answered while it cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget

from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.widgets.too_small import TooSmall, too_small


class DeckModal(ModalScreen[None]):
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield from self.body()
        yield TooSmall()

    def body(self) -> Iterator[Widget]:
        raise NotImplementedError

    def show(self, view: View) -> None:
        """Paint the dialog from the newest that is known."""
        raise NotImplementedError

    @property
    def readable(self) -> bool:
        return not self.has_class("-too-small")

    def on_mount(self) -> None:
        self._resized()

    def on_resize(self, event: events.Resize) -> None:
        self._resized()

    def _resized(self) -> None:
        self.set_class(too_small(*self.app.size), "-too-small")
        self.call_after_refresh(self.repaint)

    def repaint(self) -> None:
        if self.is_mounted and self.is_current and self.readable and self.app.is_running:
            self.show(deck_of(self).live())

    def action_leave(self) -> None:
        self.dismiss()
