"""One engine from inside: what its last steps really did, who waits for what, and who holds which KV block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.messages import Stepped
from console.tui.order import Verb
from console.tui.route import Route
from console.tui.screens.deck_screen import DeckScreen
from console.tui.screens.go_to_step import GoToStepScreen
from console.tui.widgets.engine_view import EngineView
from console.tui.widgets.step_grid import StepGrid
from control_plane.contracts.choice import split_choice
from control_plane.contracts.step import TraceMode

SAMPLED_EVERY = 10
_NEXT_MODE = {TraceMode.OFF: TraceMode.SAMPLED, TraceMode.SAMPLED: TraceMode.FULL}


class EngineScreen(DeckScreen):
    hints = (
        ("Space", "pause"),
        ("← →", "step"),
        ("g", "go to"),
        ("Enter", "request"),
        ("s", "sort"),
    )
    order_hints = (("t", "trace"), ("^x", "cancel"), ("^d", "drain"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", show=False),
        Binding("left,h", "step(-1)", show=False),
        Binding("right,l", "step(1)", show=False),
        Binding("shift+left,H", "step(-10)", show=False),
        Binding("shift+right,L", "step(10)", show=False),
        Binding("home", "oldest", show=False),
        Binding("end,G", "live", show=False),
        Binding("g", "go_to", show=False),
        Binding("s", "sort", show=False),
        Binding("t", "trace", show=False),
    ]

    def __init__(self, route: Route) -> None:
        super().__init__(route)
        self.engine = EngineView(route.id)

    def body(self) -> Iterator[Widget]:
        yield self.engine

    @property
    def step_target(self) -> str:
        return self.route.id

    @property
    def grid(self) -> StepGrid:
        return self.engine.grid

    def focus_body(self) -> None:
        self.grid.focus()

    def on_mount(self) -> None:
        super().on_mount()
        self.focus_body()

    def stepped(self, news: Stepped) -> None:
        if self.engine.take(news):
            self._repaint()

    def show(self, view: View) -> None:
        if self.engine.asks(view):
            deck_of(self).ask_blocks(self.route.id)
        self.engine.show(view)

    def on_step_grid_chosen(self, event: StepGrid.Chosen) -> None:
        deck_of(self).go(Route("request", self._listed(event.request_id)))

    def _listed(self, request_id: str) -> str:
        """The request as the platform lists it: further choices of one call are one request there."""
        known = deck_of(self).view().request(request_id)
        return request_id if known is not None else split_choice(request_id)[0]

    def action_step(self, by: int) -> None:
        self._stop()
        self.engine.playhead.move(self.engine.steps, by)
        self._repaint()

    def action_oldest(self) -> None:
        self.go_to(self.engine.playhead.tape(self.engine.steps).first)

    def action_go_to(self) -> None:
        tape = self.engine.playhead.tape(self.engine.steps)
        if tape.steps:
            self.app.push_screen(GoToStepScreen(tape.first, tape.last, self.go_to))

    def go_to(self, step: int) -> None:
        """Pause at this step, or at the last one before it that was told."""
        self._stop()
        if not self.engine.playhead.go(self.engine.steps, step):
            found = self.engine.playhead.step(self.engine.steps)
            deck_of(self).tell(f"step {step} is not kept: this is step {found}" if found else "there are no steps")
        self._repaint()

    def action_live(self) -> None:
        if deck_of(self).view().paused:
            deck_of(self).pause()

    def _stop(self) -> None:
        if not deck_of(self).view().paused:
            deck_of(self).pause()

    def action_sort(self) -> None:
        self.engine.sort = self.engine.sort.next()
        self._repaint()

    def action_trace(self) -> None:
        trace = self.engine.steps.trace
        if not self.engine.heard or trace.unavailable:
            deck_of(self).tell(trace.unavailable or "the worker has not been heard yet", "warning")
            return
        mode = _NEXT_MODE.get(trace.mode, TraceMode.OFF)
        deck_of(self).set_trace(self.route.id, mode, SAMPLED_EVERY if mode is TraceMode.SAMPLED else 1)

    def filter(self, needle: str) -> None:
        self.grid.filter(needle)

    def targets(self, verb: Verb) -> Sequence[str]:
        if verb is Verb.CANCEL:
            return [self._listed(self.grid.current)] if self.grid.current is not None else []
        if verb is Verb.SCALE:
            worker = deck_of(self).view().worker(self.route.id)
            return [worker.pool] if worker is not None else []
        return [self.route.id]
