"""One engine from inside: what its last steps really did, who waits for what, and who holds which KV block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from console.tui.deck import deck_of
from console.tui.live.batch import Sort
from console.tui.live.board import View
from console.tui.live.loads import load_now
from console.tui.live.playhead import Playhead
from console.tui.live.steps import Moment, StepLog, Tape
from console.tui.messages import Stepped
from console.tui.order import Verb
from console.tui.render.block_map import lines_wanted
from console.tui.render.look import Look
from console.tui.render.spans import Spans, wrapped
from console.tui.render.step_head import Age, Limits, head, queue_line
from console.tui.route import Route
from console.tui.screens.deck_screen import DeckScreen
from console.tui.screens.go_to_step import GoToStepScreen
from console.tui.widgets.block_map import BlockMap
from console.tui.widgets.lines import Lines
from console.tui.widgets.step_grid import Scene, StepGrid
from control_plane.contracts.choice import split_choice
from control_plane.contracts.step import TraceMode

SAMPLED_EVERY = 10
_ASK_AGAIN_S = 2.0
_NEXT_MODE = {TraceMode.OFF: TraceMode.SAMPLED, TraceMode.SAMPLED: TraceMode.FULL}


class EngineScreen(DeckScreen):
    hints = (
        ("Space", "pause"),
        ("← →", "step"),
        ("g", "go to"),
        ("Enter", "request"),
        ("s", "sort"),
        ("t", "trace"),
    )
    order_hints = (("^x", "cancel"), ("^d", "drain"))
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
        self._log = StepLog()
        self._playhead = Playhead()
        self._sort = Sort.JOINED
        self._error = ""
        self._heard = False
        self._asked_mono, self._asked_step = float("-inf"), 0
        self._stale = False
        self._moment: Moment | None = None

    def body(self) -> Iterator[Widget]:
        yield Lines(name="step-head")
        yield Lines(name="step-none")
        yield StepGrid(name="steps")
        yield Lines(name="queue")
        yield BlockMap(name="blocks")

    @property
    def step_target(self) -> str:
        return self.route.id

    @property
    def grid(self) -> StepGrid:
        return self.query_one(StepGrid)

    def focus_body(self) -> None:
        self.grid.focus()

    def on_mount(self) -> None:
        super().on_mount()
        self.focus_body()

    def stepped(self, news: Stepped) -> None:
        """Steps come many times a second: they are drawn when the screen is painted, the first ones at once."""
        if news.worker_id != self.route.id:
            return
        first = not self._log.tape().steps
        self._error = news.error
        if news.frame is not None:
            self._heard = True
            self._log.take(news.frame)
        if news.snapshot is not None:
            self._log.correct(news.snapshot)
        if news.trace is not None:
            self._log.trace = news.trace
        if first or news.error or news.trace is not None:
            self._repaint()

    def show(self, view: View) -> None:
        self._follow(view)
        tape, step = self._playhead.tape(self._log), self._playhead.step(self._log)
        self._moment = moment = tape.at(step)
        self._arrange(moment)
        if moment is None:
            return self._say_why_not(view)
        look = deck_of(self).look
        width = self.room.width
        worker = view.worker(self.route.id)
        model = worker.info.model if worker is not None and worker.info is not None else None
        limits = Limits(model.max_num_seqs, model.max_num_batched_tokens) if model is not None else Limits()
        stale = worker is None or view.stale or bool(self._error)
        end, index = self._playhead.window(self._log, self.grid.step_columns)
        behind = tape.steps[-1].step - step if self._playhead.paused else None
        line = self._head(moment, behind, view, width, look)
        self.query_one("#step-head", Lines).put([line])
        self.grid.show(Scene(tape, max(end, index), moment, self._sort, limits, stale))
        name = moment.step.waiting[0].request_id if moment.step.waiting else ""
        self.query_one("#queue", Lines).put([queue_line(moment, name, limits, look)])
        self._stale = stale
        self._show_blocks(moment, tape)
        return None

    def _follow(self, view: View) -> None:
        """The console's pause is this screen's; and ask the engine where the steps alone no longer tell everything."""
        if not view.paused:
            self._playhead.live()
        else:
            self._playhead.pause(self._log)
        last = self._log.tape().last
        due = last != self._asked_step and view.now_mono - self._asked_mono >= _ASK_AGAIN_S
        if due and self._log.doubtful and not view.paused:
            self._asked_mono, self._asked_step = view.now_mono, last
            deck_of(self).ask_blocks(self.route.id)

    def _head(self, moment: Moment, behind: int | None, view: View, width: int, look: Look) -> Spans:
        ended = moment.step.started_unix + moment.step.schedule_s + moment.step.execute_s
        if self._error:
            return [(f" {look.glyphs.failed} {self._error}: these are the last steps known", look.palette.bad)]
        worker = view.worker(self.route.id)
        load = load_now(worker, view.now_unix) if worker is not None else None
        idle = load is not None and not load.running and not load.waiting
        return head(moment, behind, Age(view.now_unix - ended, idle), self._log.trace, width, look)

    def _show_blocks(self, moment: Moment, tape: Tape) -> None:
        self.query_one(BlockMap).show(moment, tape.badges, self.grid.current, stale=self._stale)

    def _say_why_not(self, view: View) -> None:
        """There is no step to show."""
        look = deck_of(self).look
        trace = self._log.trace
        worker = view.worker(self.route.id)
        if worker is None:
            words, hint = f"no worker {self.route.id} is known", ""
        elif trace.unavailable:
            words, hint = f"no steps: {trace.unavailable}", "its requests, its load and its log are told all the same"
        elif self._error:
            words, hint = f"no steps: {self._error}", "it is tried again"
        elif not self._heard:
            words, hint = "asking the worker for its steps …", ""
        elif trace.mode is TraceMode.OFF:
            words, hint = "the trace is off", "t switches it on: first one step in ten, then every one"
        else:
            words, hint = "no step yet: the engine makes none while it has no request", ""
        lines: list[Spans] = [[]]
        lines += [[("  " + line, look.palette.text)] for line in wrapped(words, max(8, self.room.width - 4))]
        lines += [[("  " + hint, look.palette.dim)]]
        self.query_one("#step-none", Lines).put(lines)
        self.grid.show(None)

    def _arrange(self, moment: Moment | None) -> None:
        """The map gets the lines that it needs, up to a third of the room; the grid the rest."""
        room = self.room
        total = moment.step.total_blocks if moment is not None else 0
        wanted = 1 + lines_wanted(total, room.width, room.height // 5) if moment is not None else 0
        most = max(2, room.height // 3)
        heights: dict[str, int | None] = {
            "#step-head": int(moment is not None),
            "#step-none": 5 if moment is None else 0,
            "#queue": int(moment is not None),
            "#blocks": min(wanted, most),
        }
        for selector, rows in heights.items():
            widget = self.query_one(selector)
            widget.display = rows != 0
            if rows and (widget.styles.height is None or widget.styles.height.value != rows):
                widget.styles.height = rows

    def on_step_grid_moved(self) -> None:
        if self._moment is not None:
            self._show_blocks(self._moment, self._playhead.tape(self._log))

    def on_step_grid_chosen(self, event: StepGrid.Chosen) -> None:
        deck_of(self).go(Route("request", self._listed(event.request_id)))

    def _listed(self, request_id: str) -> str:
        """The request as the platform lists it: further choices of one call are one request there."""
        known = deck_of(self).view().request(request_id)
        return request_id if known is not None else split_choice(request_id)[0]

    def action_step(self, by: int) -> None:
        self._stop()
        self._playhead.move(self._log, by)
        self._repaint()

    def action_oldest(self) -> None:
        self.go_to(self._playhead.tape(self._log).first)

    def action_go_to(self) -> None:
        tape = self._playhead.tape(self._log)
        if tape.steps:
            self.app.push_screen(GoToStepScreen(tape.first, tape.last, self.go_to))

    def go_to(self, step: int) -> None:
        """Pause at this step, or at the last one before it that was told."""
        self._stop()
        if not self._playhead.go(self._log, step):
            found = self._playhead.step(self._log)
            deck_of(self).tell(f"step {step} is not kept: this is step {found}" if found else "there are no steps")
        self._repaint()

    def action_live(self) -> None:
        if deck_of(self).view().paused:
            deck_of(self).pause()

    def _stop(self) -> None:
        if not deck_of(self).view().paused:
            deck_of(self).pause()

    def action_sort(self) -> None:
        self._sort = self._sort.next()
        self._repaint()

    def action_trace(self) -> None:
        trace = self._log.trace
        if not self._heard or trace.unavailable:
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
