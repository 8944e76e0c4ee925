"""Names what an order would hit and do, and carries it out when that is confirmed.

The order's targets were fixed when the key was pressed. While the dialog is open it says what has changed about
them; a target that is gone or has been replaced makes the order impossible, and it has to be given anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rich.style import Style
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.messages import Previewed
from console.tui.order import Order, problems
from console.tui.plan import plan_for
from console.tui.render.look import Look
from console.tui.render.spans import Span, Spans, fit, wrapped
from console.tui.screens.deck_modal import DeckModal
from console.tui.widgets.entry import Entry
from console.tui.widgets.lines import Lines

_LABEL = 11


class ConfirmScreen(DeckModal):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "confirm", show=False),
        Binding("n", "leave", show=False),
    ]

    def __init__(self, order: Order) -> None:
        super().__init__()
        self.order = order
        self._preview = Previewed(order, "asking …")
        self.asking = True
        self._said = ""

    @property
    def challenge(self) -> str:
        """What has to be typed when the order hits several things at once."""
        return str(len(self.order.targets)) if len(self.order.targets) > 1 else ""

    def body(self) -> Iterator[Widget]:
        yield Lines(name="question")
        if self.challenge:
            yield Entry(id="challenge", select_on_focus=False)
        yield Lines(name="answers")

    def on_mount(self) -> None:
        super().on_mount()
        deck_of(self).preview(self.order)
        if self.challenge:
            self.query_one("#challenge").focus()

    def show(self, view: View) -> None:
        look = deck_of(self).look
        against = problems(self.order, view.snapshot, view.link.connected)
        lines = self._lines(view, against, look)
        question = self.query_one("#question", Lines)
        room = max(1, self.app.size.height - 8)
        height = min(len(lines), room)
        if question.styles.height is None or question.styles.height.value != height:
            question.styles.height = height
        question.put(lines)
        self.query_one("#answers", Lines).put([self._answers(bool(against), look)])

    def _lines(self, view: View, against: list[str], look: Look) -> list[Spans]:
        palette = look.palette
        width = self.query_one("#question").size.width
        lines: list[Spans] = [[(self.order.title[:1].upper() + self.order.title[1:], palette.title)], []]
        if view.snapshot is not None:
            plan = plan_for(self.order, view.snapshot)
            for label, value in (*plan.facts, ("platform", self._preview.text)):
                failed = label == "platform" and self._preview.failed
                style = palette.bad if failed else palette.text
                lines += _fact(label, value, width, look.palette.dim, style)
            for warning in plan.warnings:
                lines += _fact(look.glyphs.busy, warning, width, palette.busy, palette.busy)
        for problem in against:
            lines += _fact(look.glyphs.failed, problem, width, palette.bad, palette.bad)
        if self._said:
            lines += [[], [(self._said, palette.watch)]]
        return lines

    def _answers(self, impossible: bool, look: Look) -> list[Span]:
        palette = look.palette
        leave: list[Span] = [("Esc", palette.key), (" leave everything as it is", palette.dim)]
        if impossible:
            return leave
        verb = self.order.verb.value
        if self.challenge:
            what = f" type {self.challenge} to {verb} {self.challenge} {self.order.verb.noun}s   "
            return [("Enter", palette.key), (what, palette.text), *leave]
        return [("y", palette.key), (f" {verb}   ", palette.text), ("n", palette.key), (" or ", palette.dim), *leave]

    def take(self, preview: Previewed) -> None:
        """What the platform says it would do."""
        if preview.order is self.order:
            self._preview, self.asking = preview, False
        self.repaint()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip() == self.challenge:
            self.action_confirm()
        else:
            self._said = f"nothing done: that is not {self.challenge}"
            self.repaint()

    def action_confirm(self) -> None:
        deck = deck_of(self)
        live = deck.live()
        if not self.readable or problems(self.order, live.snapshot, live.link.connected):
            self.repaint()
            return
        self.dismiss()
        deck.carry_out(self.order)


def _fact(label: str, value: str, width: int, label_style: Style, style: Style) -> list[Spans]:
    """A label and its value, on as many lines as the value needs."""
    pieces = wrapped(value, max(8, width - _LABEL))
    labels = [label, *[""] * (len(pieces) - 1)]
    return [[*fit([(name, label_style)], _LABEL), (piece, style)] for name, piece in zip(labels, pieces, strict=True)]
