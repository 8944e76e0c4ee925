"""One engine from inside: the step that is looked at, the batch step by step, who waits, and who holds which block."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from textual.app import ComposeResult
from textual.containers import Vertical

from console.step_burst import BEFORE, burst, of_note
from console.tui.deck import deck_of
from console.tui.live.batch import Sort
from console.tui.live.board import View
from console.tui.live.loads import load_now
from console.tui.live.part import Part
from console.tui.live.playhead import Playhead
from console.tui.live.steps import Moment, StepLog, Tape
from console.tui.messages import Stepped
from console.tui.render.block_map import lines_wanted
from console.tui.render.look import Look
from console.tui.render.spans import Spans, wrapped
from console.tui.render.step_head import Age, Limits, head, queue_line
from console.tui.render.table_lines import table_lines
from console.tui.widgets.block_map import BlockMap
from console.tui.widgets.lines import Lines
from console.tui.widgets.step_grid import Scene, StepGrid
from control_plane.contracts.step import TraceMode

_ASK_AGAIN_S = 2.0
_MAP_FROM, _QUEUE_FROM, _GRID_FROM = 20, 14, 8
"""Lines from which on there is room for what the view is not turned to."""


class EngineView(Vertical):
    """Of ``worker_id``. The block map gets the lines that it needs, up to one part in ``map_share`` of the room; the
    steps get the rest. Nothing is shown of what was before ``since`` (the worker's wall clock)."""

    DEFAULT_CSS = "EngineView { height: 1fr; }"

    def __init__(self, worker_id: str = "", *, map_share: int = 3) -> None:
        super().__init__()
        self._map_share = map_share
        self._asked_mono, self._asked_step = float("-inf"), 0
        self._view: View | None = None
        self.since = 0.0
        self.watch_worker(worker_id)

    def watch_worker(self, worker_id: str) -> None:
        """Begin anew, with this worker."""
        self.worker_id = worker_id
        self.steps = StepLog()
        self.playhead = Playhead()
        self.sort = Sort.JOINED
        self.heard = False
        self.error = ""
        self._stale = False
        self.moment: Moment | None = None
        self.turn_to(Part.ALL)

    def turn_to(self, part: Part) -> None:
        self.part = part
        self._moved, self._sought = False, (0, 0)

    def step_by(self, by: int) -> None:
        """So many steps forth or back; from then on the view stands where it was moved to."""
        if self.part is Part.STEPS and self.moment is not None:
            self._moved = True
            self.playhead.move(self.steps, by)
            tape = self.playhead.tape(self.steps)
            self.playhead.go(self.steps, max(self.playhead.step(self.steps), tape.steps[self._first(tape)].step))

    def compose(self) -> ComposeResult:
        yield Lines(name="step-head")
        yield Lines(name="step-none")
        yield StepGrid(name="steps")
        yield Lines(name="queue")
        yield Lines(name="tables")
        yield BlockMap(name="blocks")

    @property
    def grid(self) -> StepGrid:
        return self.query_one(StepGrid)

    def take(self, news: Stepped) -> bool:
        """Steps come many times a second: whether these are worth drawing at once, or with the next paint."""
        if news.worker_id != self.worker_id:
            return False
        first = not self.steps.tape().steps
        self.error = news.error
        if news.frame is not None:
            self.heard = True
            self.steps.take(news.frame)
        if news.snapshot is not None:
            self.steps.correct(news.snapshot)
        if news.trace is not None:
            self.steps.trace = news.trace
        return bool(first or news.error or news.trace is not None)

    def asks(self, view: View) -> bool:
        """Whether the engine should be asked for its blocks: the steps alone no longer tell everything."""
        last = self.steps.tape().last
        due = last != self._asked_step and view.now_mono - self._asked_mono >= _ASK_AGAIN_S
        if not due or not self.steps.doubtful or view.paused:
            return False
        self._asked_mono, self._asked_step = view.now_mono, last
        return True

    def show(self, view: View) -> None:
        """The console's pause is this one's."""
        self._view = view
        if view.paused:
            self.playhead.pause(self.steps)
        elif self.part is Part.STEPS:
            self._seek()
        else:
            self.playhead.live()
        tape, step = self.playhead.tape(self.steps), self.playhead.step(self.steps)
        first = self._first(tape)
        self.moment = moment = tape.at(step) if first < len(tape.steps) else None
        self._arrange(moment)
        if moment is None:
            return self._say_why_not(view)
        look = deck_of(self).look
        worker = view.worker(self.worker_id)
        model = worker.info.model if worker is not None and worker.info is not None else None
        limits = Limits(model.max_num_seqs, model.max_num_batched_tokens) if model is not None else Limits()
        self._stale = worker is None or view.stale or bool(self.error)
        end, index = self.playhead.window(self.steps, self.grid.step_columns)
        behind = tape.steps[-1].step - step if self.playhead.paused else None
        line = self._head(moment, behind, view, self.size.width, look)
        self.query_one("#step-head", Lines).put([line])
        since = replace(tape, steps=tape.steps[first:]) if first else tape
        self.grid.show(Scene(since, max(end, index) - first, moment, self.sort, limits, self._stale))
        name = moment.step.waiting[0].request_id if moment.step.waiting else ""
        self.query_one("#queue", Lines).put([queue_line(moment, name, limits, look)])
        self._show_blocks(moment, tape)
        return None

    def _first(self, tape: Tape) -> int:
        """The index of the first step that is shown; so many as there are, if none is."""
        return bisect_left(tape.steps, self.since, key=lambda step: step.started_unix) if self.since else 0

    def _seek(self) -> None:
        """To the step of note among those that the engine made since it was last without work; there the view stands
        until it is moved; newer ones, and another width, are looked through anew."""
        tape = self.steps.tape()
        sought = tape.last, self.grid.step_columns
        if self._moved or not tape.steps or sought == self._sought or not self.grid.size.width:
            return
        self._sought = sought
        first = self._first(tape)
        steps = tape.steps[first:]
        begin = burst(steps)
        at = of_note(steps, begin)
        self.playhead.look_at(self.steps, first + at, first + max(begin, at - BEFORE) + self.grid.step_columns - 1)
        preempted = steps[at].preempted if steps else ()
        if preempted:
            self.grid.pick(preempted[0])

    def _head(self, moment: Moment, behind: int | None, view: View, width: int, look: Look) -> Spans:
        ended = moment.step.started_unix + moment.step.schedule_s + moment.step.execute_s
        if self.error:
            return [(f" {look.glyphs.failed} {self.error}: these are the last steps known", look.palette.bad)]
        worker = view.worker(self.worker_id)
        load = load_now(worker, view.now_unix) if worker is not None else None
        idle = load is not None and not load.running and not load.waiting
        return head(moment, behind, Age(view.now_unix - ended, idle), self.steps.trace, width, look)

    def _show_blocks(self, moment: Moment, tape: Tape) -> None:
        picked = self.grid.current if self.grid.display else None
        self.query_one(BlockMap).show(moment, tape.badges, picked, stale=self._stale)
        look = deck_of(self).look
        lines = table_lines(moment, tape.badges, picked, self.size.width, look) if self.part is Part.BLOCKS else []
        tables = self.query_one("#tables", Lines)
        if (hidden := len(lines) - tables.size.height) > 0 and tables.size.height > 1:
            lines[-hidden - 1 :] = [[(f"   {look.glyphs.ellipsis} {hidden + 1} lines more", look.palette.dim)]]
        tables.put(lines)

    def _say_why_not(self, view: View) -> None:
        """There is no step to show."""
        look = deck_of(self).look
        trace = self.steps.trace
        if view.worker(self.worker_id) is None:
            words, hint = f"no worker {self.worker_id} is known", ""
        elif trace.unavailable:
            words, hint = f"no steps: {trace.unavailable}", "its requests, its load and its log are told all the same"
        elif self.error:
            words, hint = f"no steps: {self.error}", "it is tried again"
        elif not self.heard:
            words, hint = "asking the worker for its steps …", ""
        elif trace.mode is TraceMode.OFF:
            words, hint = "the trace is off", "t switches it on: first one step in ten, then every one"
        else:
            words, hint = "no step yet: the engine makes none while it has no request", ""
        lines: list[Spans] = [[]]
        lines += [[("  " + line, look.palette.text)] for line in wrapped(words, max(8, self.size.width - 4))]
        lines += [[("  " + hint, look.palette.dim)]]
        self.query_one("#step-none", Lines).put(lines)
        self.grid.show(None)

    def _arrange(self, moment: Moment | None) -> None:
        room = self.size
        total = moment.step.total_blocks if moment is not None else 0
        wanted = 1 + lines_wanted(total, room.width, room.height // 5) if moment is not None else 0
        most = max(2, room.height // self._map_share)
        by_steps = moment is not None and self.part is Part.STEPS
        heights = {
            "#step-head": int(moment is not None),
            "#step-none": 5 if moment is None else 0,
            "#queue": int(moment is not None and (self.part is Part.ALL or room.height >= _QUEUE_FROM)),
            "#blocks": 0 if by_steps and room.height < _MAP_FROM else min(wanted, most),
            "#tables": 0,
        }
        if moment is not None and self.part is Part.BLOCKS:
            held = len(table_lines(moment, {}, None, room.width, deck_of(self).look))
            heights["#tables"] = max(0, min(held, room.height - sum(heights.values())))
        self.grid.display = self.part is not Part.BLOCKS or room.height - sum(heights.values()) >= _GRID_FROM
        for selector, rows in heights.items():
            widget = self.query_one(selector)
            widget.display = rows != 0
            if rows and (widget.styles.height is None or widget.styles.height.value != rows):
                widget.styles.height = rows

    def on_step_grid_moved(self) -> None:
        if self.moment is not None:
            self._show_blocks(self.moment, self.playhead.tape(self.steps))

    def on_resize(self) -> None:
        if self._view is not None:
            self.show(self._view)
