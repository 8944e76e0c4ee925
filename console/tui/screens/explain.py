"""Why one request went where it went: every endpoint of each of its decisions, with scores and words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from textual.binding import BindingType
from textual.widget import Widget

from console.decision_notes import rule_words, waited_words, why
from console.figures import plural
from console.hold_notes import hold_words
from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.messages import Explained
from console.tui.render.figures import clock
from console.tui.render.look import Look
from console.tui.render.spans import Spans, wrapped
from console.tui.route import Route
from console.tui.screens.deck_screen import DeckScreen
from console.tui.widgets.endpoint_table import EndpointRow, columns_for, endpoint_rows, endpoint_table, row_id
from console.tui.widgets.lines import Lines
from console.tui.widgets.table import Table
from control_plane.contracts.decision import DecisionView
from control_plane.contracts.hold import Hold

ASK_AGAIN_S: Final = 2.0

ROW_LINES: Final = 2
"""Always as many, so that the table stays where it is."""


class ExplainScreen(DeckScreen):
    hints = (("Enter", "worker"), ("r", "request"))
    BINDINGS: ClassVar[list[BindingType]] = [("r", "request", "")]

    def __init__(self, route: Route) -> None:
        super().__init__(route)
        self._rows: list[EndpointRow] = []
        self._decisions: tuple[DecisionView, ...] = ()
        self._error = ""
        self._asked = -math.inf

    def body(self) -> Iterator[Widget]:
        yield Lines(name="decision")
        yield endpoint_table()

    @property
    def table(self) -> Table[object]:
        return self.query_one("#endpoints", Table)

    def focus_body(self) -> None:
        self.table.focus()

    def on_mount(self) -> None:
        super().on_mount()
        self.focus_body()

    def explained(self, news: Explained) -> None:
        if news.request_id == self.route.id:
            self._error = news.error
            self._decisions = news.decisions or self._decisions
            self._rows = list(endpoint_rows(self._decisions))
            self.query_one("#endpoints", Table).use(columns_for(self._decisions))
            self.show(deck_of(self).view())

    def show(self, view: View) -> None:
        self._ask(view)
        self._show_head(view)
        self.table.show(self._rows, view)

    def _show_head(self, view: View) -> None:
        look = deck_of(self).look
        row = next((row for row in self._rows if row_id(row) == self.table.current), None)
        request = view.request(self.route.id)
        holds = request.holds if request is not None else ()
        decision = row.decision if row is not None else self._decisions[-1] if self._decisions else None
        if decision is not None:
            lines = head_lines(decision, row, self.room.width, look)
        elif holds:
            lines = []
        else:
            asked = self._error or "asking the routers"
            lines = [[(f"  {asked}", look.palette.watch if self._error else look.palette.dim)]]
        lines = [*hold_lines(holds, self.room.width, look), *lines]
        if decision is not None and self._error:
            lines.append([(f"  {self._error}", look.palette.watch)])
        head = self.query_one("#decision", Lines)
        if head.styles.height is None or head.styles.height.value != len(lines):
            head.styles.height = len(lines)
        head.put(lines)

    def _ask(self, view: View) -> None:
        """Now and then: it may be sent somewhere else in mid-answer."""
        if (view.paused and view.replay is None) or view.stale:
            return
        if abs(view.now_mono - self._asked) >= ASK_AGAIN_S:
            self._asked = view.now_mono
            deck_of(self).ask_explanation(self.route.id)

    def on_table_moved(self) -> None:
        self._show_head(deck_of(self).view())

    def on_table_chosen(self, event: Table.Chosen) -> None:
        row = next((row for row in self._rows if row_id(row) == event.row_id), None)
        if row is not None:
            deck_of(self).go(Route("worker", row.worker_id))

    def action_request(self) -> None:
        deck_of(self).go(Route("request", self.route.id))

    def filter(self, needle: str) -> None:
        self.table.filter(needle)


def hold_lines(holds: Sequence[Hold], width: int, look: Look) -> list[Spans]:
    """Each time that it was kept waiting, and why."""
    palette = look.palette
    return [
        [(f"  {part}", palette.text if hold.over else palette.watch)]
        for hold in holds
        for part in wrapped(f"queue: {hold_words(hold)}", max(10, width - 4))
    ]


def head_lines(decision: DecisionView, row: EndpointRow | None, width: int, look: Look) -> list[Spans]:
    """Which decision it is, why it came out so, and in two lines what is to say of the row under the cursor."""
    palette = look.palette
    where = decision.chosen or "the queue"
    lines: list[Spans] = [
        [
            (f"  attempt {decision.attempt}", palette.title),
            (f" {look.glyphs.arrow} ", palette.dim),
            (where, palette.good if decision.chosen else palette.watch),
            (f"  {clock(decision.at_unix)}  {decision.model}  router {decision.router_id}", palette.dim),
        ]
    ]
    if decision.continued_tokens:
        lines.append([(f"  goes on after {plural(decision.continued_tokens, 'token')}", palette.text)])
    words = [why(decision), waited_words(decision)]
    if decision.candidates:
        words.append(rule_words(decision))
    for text in filter(None, words):
        lines += [[(f"  {part}", palette.text)] for part in wrapped(text, max(10, width - 4))]
    told = [] if row is None or row.picked else wrapped(f"not {row.worker_id}: {row.words}", max(10, width - 4))
    lines += [[(f"  {part}", palette.watch)] for part in told[:ROW_LINES]]
    return [*lines, *([[]] * (ROW_LINES - len(told[:ROW_LINES]))), []]
