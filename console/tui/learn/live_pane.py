"""The lesson's platform, live, beside its words: the console's own views, turned to what the step is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget

from console.tui.deck import deck_of
from console.tui.learn.pin import TOLD, VIEWS, Pin
from console.tui.learn.since import Since
from console.tui.learn.worker_columns import WIDE_FROM, worker_columns
from console.tui.live.board import View
from console.tui.live.part import Part
from console.tui.messages import Stepped
from console.tui.order import Verb
from console.tui.render.spans import Span, apart
from console.tui.widgets.engine_view import EngineView
from console.tui.widgets.event_lines import EventLines
from console.tui.widgets.event_table import event_table
from console.tui.widgets.lines import Lines
from console.tui.widgets.plot_grid import LOWEST, NARROWEST, PlotGrid
from console.tui.widgets.request_table import ordered, request_table
from console.tui.widgets.scrolled_lines import ScrolledLines
from console.tui.widgets.table import Table
from console.tui.widgets.worker_table import worker_table
from control_plane.contracts.choice import split_choice
from control_plane.contracts.fleet import Snapshot, WorkerView

_MOST_EVENTS = 4
_SPAN_S = 60.0
"""Of the plots: an experiment takes a few seconds of it."""

_SECRET = frozenset({"failure_injected"})
_TITLES = {
    "workers": "workers: KV cache, batch, latency",
    "requests": "requests",
    "engine": "engine {of}: batch and KV blocks",
    "events": "events, the newest on top",
    TOLD: "{of}",
}


class LivePane(Vertical):
    """Draws the view that it is turned to. The other ones are there, and are not drawn. ``workers`` is how many the
    platform begins with."""

    DEFAULT_CSS = "LivePane { height: 1fr; width: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,left_square_bracket", "step_by(-1)", show=False),
        Binding("right,right_square_bracket", "step_by(1)", show=False),
        Binding("shift+left", "step_by(-10)", show=False),
        Binding("shift+right", "step_by(10)", show=False),
    ]

    def __init__(self, workers: int) -> None:
        super().__init__(id="live")
        self._one = workers == 1
        self.pin = Pin("workers")
        self.running_only = False
        self.told: tuple[str, ...] = ()
        self._since = Since()
        self._wide: bool | None = None
        self._view: View | None = None

    def compose(self) -> ComposeResult:
        yield Lines(name="live-title")
        yield worker_table()
        yield PlotGrid(span_s=_SPAN_S)
        yield EventLines()
        yield request_table(of_one_worker=self._one)
        yield EngineView(map_share=2)
        yield event_table()
        yield ScrolledLines(name="told")

    def on_mount(self) -> None:
        self._arrange(empty=True)

    @property
    def engine(self) -> EngineView:
        return self.query_one(EngineView)

    @property
    def keys_to(self) -> Widget:
        """Which part of the view moves and marks."""
        if self.pin.view == "engine":
            return self.engine.grid
        if self.pin.view == TOLD:
            return self.query_one(ScrolledLines)
        return self._table(self.pin.view if self.pin.view in VIEWS else VIEWS[0])

    def _table(self, name: str) -> Table[object]:
        return self.query_one(f"#{name}", Table)

    def begin(self, found: Snapshot | None) -> None:
        """Nothing is shown of what was before the lesson ``found`` its platform so."""
        self._since = Since.found(found)
        self.engine.since = self._since.at

    def count_anew(self, view: View) -> None:
        """An experiment begins: hits are those of its calls, until the next one."""
        self._since = self._since.counted(view.workers)

    def turn(self, pin: Pin) -> None:
        if pin == self.pin:
            return
        if pin.view == "engine" and pin.of != self.engine.worker_id:
            self.engine.watch_worker(pin.of)
        self.engine.turn_to(pin.part)
        self.pin = pin

    def next_view(self, worker_id: str) -> None:
        """The next of the views; an engine is that of ``worker_id``."""
        here = self.pin.view
        view = VIEWS[(VIEWS.index(here) + 1) % len(VIEWS)] if here in VIEWS else VIEWS[0]
        self.turn(Pin(view, worker_id if view == "engine" else ""))

    def take(self, news: Stepped) -> bool:
        return self.engine.take(news)

    def asks(self, view: View) -> bool:
        """Whether the engine should be asked for its blocks."""
        return self.pin.view == "engine" and self.engine.asks(view)

    def show(self, view: View) -> None:
        """What the lesson made to fail is for the learner to find: it is no event here."""
        view = self._since.of(view)
        view = replace(view, events=tuple(event for event in view.events if event.kind not in _SECRET))
        self._view = view
        if self.size.width <= 0 or self.size.height <= 0:
            return
        self._title(there=view.snapshot is not None)
        if view.snapshot is None:
            self._arrange(empty=True)
            return
        self._arrange(len(view.workers))
        if self.pin.view == "workers":
            self._workers(view)
        elif self.pin.view == "requests":
            requests = [each for each in ordered(view.requests) if each.phase.active or not self.running_only]
            self._show_newest("requests", requests, view)
        elif self.pin.view == "engine":
            if not self.engine.grid.has_focus and self.pin.part is Part.ALL:
                self.engine.grid.to_top()
            self.engine.show(view)
        elif self.pin.view == TOLD:
            text = deck_of(self).look.palette.text
            told = self.query_one(ScrolledLines)
            told.show([[(f" {Text.from_ansi(line).plain}", text)] for line in self.told])
        else:
            self._show_newest("events", view.events[::-1], view)

    def _show_newest(self, name: str, rows: Sequence[object], view: View) -> None:
        """The newest are on top, and in sight until somebody moves among them."""
        table = self._table(name)
        table.show(rows, view, at_top=not table.has_focus and not table.marked)

    def _title(self, *, there: bool) -> None:
        look = deck_of(self).look
        words = _TITLES[self.pin.view].format(of=self.pin.of) if there else "its platform, live: not there yet"
        if there and self.pin.view == "requests" and self.running_only:
            words += " that run"
        key = [("[v]", look.palette.key), (" other view ", look.palette.dim)] if there else []
        if there and self.pin.part is Part.STEPS:
            words = f"steps of {self.pin.of}"
            key = [*self._goes_by("← →", " scroll  "), *key]
        elif there and self.pin.view == TOLD and len(self.told) > self.size.height - 1:
            key = [*self._goes_by("↓ ↑", " more  "), *key]
        self.query_one("#live-title", Lines).put([apart([(f" {words}", look.palette.title)], key, self.size.width)])

    def _goes_by(self, keys: str, word: str) -> list[Span]:
        """By which keys this view is gone through."""
        palette = deck_of(self).look.palette
        first = [] if self.keys_to.has_focus else [("[Tab]", palette.key), (" then ", palette.dim)]
        return [*first, (f"[{keys}]", palette.key), (word, palette.dim)]

    def _hits(self, worker: WorkerView) -> float | None:
        return self._since.hits(worker)

    def _workers(self, view: View) -> None:
        table: Table[WorkerView] = self.query_one("#workers", Table)
        if (wide := table.columns >= WIDE_FROM) != self._wide:
            self._wide = wide
            table.use(worker_columns(self._hits, wide=wide))
        table.show(view.workers, view)
        self.query_one(PlotGrid).show(view, table.current)
        self.query_one(EventLines).show(view)

    def _arrange(self, workers: int = 0, *, empty: bool = False) -> None:
        """Only the parts of this view have a place; plots where there is room for all of them."""
        view = "" if empty else self.pin.view
        left = self.size.height - 1
        table = min(workers + 1, left) if workers else min(2, left)
        columns = max(1, self.size.width // NARROWEST)
        plots = left - table if workers and (left - table) // LOWEST * columns >= workers else 0
        events = left - table if not plots else min(_MOST_EVENTS, plots % LOWEST)
        rows: dict[Widget, int | None] = {
            self._table("workers"): table if view == "workers" else 0,
            self.query_one(PlotGrid): plots - events if plots and view == "workers" else 0,
            self.query_one(EventLines): events if view == "workers" else 0,
            self._table("requests"): None if view == "requests" else 0,
            self.engine: None if view == "engine" else 0,
            self._table("events"): None if view == "events" else 0,
            self.query_one("#told"): max(0, left) if view == TOLD else 0,
        }
        for widget, height in rows.items():
            widget.display = height is None or height > 0
            if height and (widget.styles.height is None or widget.styles.height.value != height):
                widget.styles.height = height

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only steps that stand still are gone through; elsewhere these keys are the lesson's."""
        return self.pin.part is Part.STEPS if action == "step_by" else True

    def action_step_by(self, by: int) -> None:
        self.engine.step_by(by)
        self.on_resize()

    def targets(self, verb: Verb) -> Sequence[str]:
        """What an order would be about: what is marked, or under the cursor."""
        view = deck_of(self).view()
        if verb is Verb.SCALE:
            return [pool.name for pool in view.pools[:1]]
        if self.pin.view == "engine":
            return [self.pin.of] if verb is not Verb.CANCEL else self._under_cursor(view)
        noun = {"workers": "worker", "requests": "request"}.get(self.pin.view)
        return self._table(self.pin.view).selection if noun is not None and noun == verb.noun else ()

    def _under_cursor(self, view: View) -> Sequence[str]:
        found = self.engine.grid.current
        if found is None:
            return ()
        return [found if view.request(found) is not None else split_choice(found)[0]]

    def unmark(self) -> bool:
        had = [each for each in self.query(Table) if each.marked]
        for table in had:
            table.unmark()
        return bool(had)

    def filter(self, needle: str) -> None:
        for table in self.query(Table):
            table.filter(needle)
        self.engine.grid.filter(needle)

    def on_descendant_focus(self) -> None:
        self.on_resize()

    def on_descendant_blur(self) -> None:
        self.on_resize()

    def on_resize(self) -> None:
        if self._view is not None:
            self.show(self._view)
