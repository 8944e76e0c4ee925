"""Where requests were sent lately, newest first; Enter tells why not elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar, Final

from textual.binding import BindingType
from textual.widget import Widget

from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.messages import Decided
from console.tui.render.figures import count
from console.tui.render.spans import Span
from console.tui.route import Route
from console.tui.screens.deck_screen import DeckScreen
from console.tui.widgets.decision_table import decision_id, decision_table
from console.tui.widgets.lines import Lines
from console.tui.widgets.table import Table
from control_plane.contracts.decision import DecisionView

MOST: Final = 1000


class DecisionsScreen(DeckScreen):
    hints = (("Enter", "why"), ("r", "request"))
    BINDINGS: ClassVar[list[BindingType]] = [("r", "request", "")]

    def __init__(self, route: Route) -> None:
        super().__init__(route)
        self._known: dict[str, DecisionView] = {}
        self._shown: tuple[DecisionView, ...] = ()
        self._error = ""
        self._heard = False

    def body(self) -> Iterator[Widget]:
        yield Lines(name="counts")
        yield decision_table()

    @property
    def table(self) -> Table[object]:
        return self.query_one("#decisions", Table)

    @property
    def wants_decisions(self) -> bool:
        return True

    def focus_body(self) -> None:
        self.table.focus()

    def on_mount(self) -> None:
        super().on_mount()
        self.focus_body()

    def decided(self, news: Decided) -> None:
        self._error = news.error
        if not news.error:
            self._heard = True
            known = {} if news.anew else self._known
            for decision in news.decisions:
                _forget_waiting(known, decision)
                known[decision_id(decision)] = decision
            self._known = dict(list(known.items())[-MOST:])
        self.show(deck_of(self).view())

    def show(self, view: View) -> None:
        if not view.paused or view.replay is not None:
            self._shown = tuple(reversed(self._known.values()))
        palette = deck_of(self).look.palette
        went = Counter(decision.chosen for decision in self._shown)
        queued = went.pop("", 0)
        spans: list[Span] = [("  ", palette.dim)]
        shown = count(sum(went.values())) if self._heard else count(None)
        spans += [(shown, palette.title), (" sent   ", palette.dim)]
        for worker_id, number in went.most_common(5):
            spans += [(count(number), palette.title), (f" {worker_id}   ", palette.dim)]
        if queued:
            spans += [(count(queued), palette.watch), (" had to wait   ", palette.dim)]
        if self._error:
            spans.append((self._error, palette.watch))
        self.query_one("#counts", Lines).put([spans])
        self.table.show(self._shown, view)

    def on_table_chosen(self, event: Table.Chosen) -> None:
        self._open("explain", event.row_id)

    def action_request(self) -> None:
        if self.table.current is not None:
            self._open("request", self.table.current)

    def _open(self, view: str, row_id: str) -> None:
        decision = next((each for each in self._shown if decision_id(each) == row_id), None)
        if decision is not None:
            deck_of(self).go(Route(view, decision.request_id))

    def filter(self, needle: str) -> None:
        self.table.filter(needle)


def _forget_waiting(known: dict[str, DecisionView], news: DecisionView) -> None:
    """One that waits looks again and again; the newest look stands for all."""
    if news.chosen or news.looks == 1:
        return
    same = (news.router_id, news.request_id, news.attempt)
    for name, old in list(known.items()):
        if not old.chosen and (old.router_id, old.request_id, old.attempt) == same:
            del known[name]
