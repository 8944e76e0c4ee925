"""One worker: who it is, its load and its plot, its requests, the end of its log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.live.loads import kv_use, load_now
from console.tui.messages import LogRead
from console.tui.order import Verb
from console.tui.render.bar import kv_bar
from console.tui.render.fields import Field, fields
from console.tui.render.figures import UNKNOWN, age, count, duration, percent, rate, size
from console.tui.render.look import Look
from console.tui.render.spans import Span, Spans, greyed
from console.tui.render.states import worker_state
from console.tui.route import Route
from console.tui.screens.deck_screen import DeckScreen
from console.tui.widgets.lines import Lines
from console.tui.widgets.log_view import LogView
from console.tui.widgets.request_table import ordered, request_table
from console.tui.widgets.table import Table
from console.tui.widgets.worker_plot import WorkerPlot
from control_plane.contracts.fleet import WorkerView
from control_plane.contracts.kv_belief import KvBelief
from control_plane.contracts.worker import Load

SPANS_S = (60.0, 120.0, 300.0, 600.0)
_BOTH_FROM = 34


class WorkerScreen(DeckScreen):
    hints = (("Tab", "requests/log"), ("Enter", "open"), ("e", "engine"))
    order_hints = (("^d", "drain"), ("^x", "cancel"), ("^o", "cordon"), ("^u", "uncordon"), ("^s", "scale"))
    late_hints = (("[ ]", "time"), ("^l", "whole log"))
    BINDINGS: ClassVar[list[BindingType]] = [
        ("tab", "other", ""),
        ("right_square_bracket", "span(1)", ""),
        ("left_square_bracket", "span(-1)", ""),
        ("ctrl+l", "log", ""),
        ("e", "engine", ""),
    ]

    def __init__(self, route: Route) -> None:
        super().__init__(route)
        self._span = 1
        self._log_first = False
        self._info = 1
        self._last: WorkerView | None = None

    def body(self) -> Iterator[Widget]:
        yield Lines(name="info")
        yield WorkerPlot(name="plot")
        yield request_table(of_one_worker=True)
        yield Lines(name="log-title")
        yield LogView()

    @property
    def log_target(self) -> str:
        return self.route.id

    @property
    def table(self) -> Table[object]:
        return self.query_one("#requests", Table)

    @property
    def log_view(self) -> LogView:
        return self.query_one(LogView)

    def focus_body(self) -> None:
        (self.log_view if self._log_first else self.table).focus()

    def on_mount(self) -> None:
        super().on_mount()
        self._arrange()
        self.focus_body()

    def show(self, view: View) -> None:
        look = deck_of(self).look
        worker = view.worker(self.route.id)
        self._last = worker or self._last
        if self._last is None:
            lines: list[Spans] = [[], [(f"  no worker {self.route.id} is known", look.palette.dim)]]
        else:
            lines = describe(self._last, view, self.room.width, look)
            if worker is None:
                lines[0] = [
                    (f" {look.glyphs.failed} {self.route.id} is gone: this is how it was last seen", look.palette.watch)
                ]
            if worker is None or view.stale:
                lines = [greyed(line, look.palette.faint) for line in lines]
        self._info = len(lines)
        self._arrange()
        self.query_one("#info", Lines).put(lines)
        self.query_one("#plot", WorkerPlot).show(self.route.id, view, SPANS_S[self._span], current=True)
        self.table.show(ordered(tuple(r for r in view.requests if r.worker_id == self.route.id)), view)
        self.on_log_view_let()

    def on_log_view_let(self) -> None:
        palette = deck_of(self).look.palette
        following = "follows" if self.log_view.following else "stands still: G follows again"
        title: list[Span] = [("  log ", palette.title), (following, palette.dim)]
        self.query_one("#log-title", Lines).put([title])

    def read(self, piece: LogRead) -> None:
        if piece.target != self.log_target:
            return
        if piece.error:
            self.log_view.fail(piece.error)
        elif piece.anew:
            self.log_view.clear()
        else:
            self.log_view.feed(piece.data)

    def _arrange(self) -> None:
        """On a low screen the requests and the log share one place."""
        height = self.room.height
        both = height >= _BOTH_FROM
        heights = {
            "#info": self._info,
            "#plot": max(6, min(14, (height - self._info) // 3)) if height >= 20 else 0,
            "#requests": None if both or not self._log_first else 0,
            "#log-title": 1 if both or self._log_first else 0,
            "LogView": None if both or self._log_first else 0,
        }
        for selector, rows in heights.items():
            widget = self.query_one(selector)
            widget.display = rows != 0
            if rows and (widget.styles.height is None or widget.styles.height.value != rows):
                widget.styles.height = rows

    def on_table_chosen(self, event: Table.Chosen) -> None:
        deck_of(self).go(Route("request", event.row_id))

    def action_other(self) -> None:
        self._log_first = not self._log_first
        self._arrange()
        self.focus_body()

    def action_span(self, by: int) -> None:
        self._span = max(0, min(len(SPANS_S) - 1, self._span + by))
        self.show(deck_of(self).view())

    def action_log(self) -> None:
        deck_of(self).go(Route("logs", f"worker/{self.route.id}"))

    def action_engine(self) -> None:
        deck_of(self).go(Route("engine", self.route.id))

    def filter(self, needle: str) -> None:
        self.table.filter(needle)
        self.log_view.filter(needle)

    def unmark(self) -> bool:
        had = bool(self.table.marked)
        self.table.unmark()
        return had

    def targets(self, verb: Verb) -> Sequence[str]:
        if verb is Verb.CANCEL:
            return self.table.selection if not self._log_first or self.room.height >= _BOTH_FROM else []
        if verb is Verb.SCALE:
            return [self._last.pool] if self._last is not None else []
        return [self.route.id]


def describe(worker: WorkerView, view: View, width: int, look: Look) -> list[Spans]:
    """Everything about one worker, in a few lines."""
    palette = look.palette
    state = worker_state(worker, view.now_unix, look, wide=True)
    load = load_now(worker, view.now_unix)
    info, model = worker.info, worker.info.model if worker.info else None
    head: list[Span] = [(f" {state.glyph} {state.word}", state.style), (f"  {worker.id}  ", palette.title)]
    head += kv_bar(kv_use(worker, view.now_unix), 27 if width >= 100 else 17, look)
    if load is not None and load.total_blocks:
        head += [(f"  {load.used_blocks} of {load.total_blocks} blocks", palette.dim)]
    if worker.reason:
        head += [(f"  {worker.reason}", palette.watch)]
    latency = worker.latency
    ttft = latency if latency is not None and latency.ttft_count else None
    itl = latency if latency is not None and latency.itl_count else None
    facts: list[Field] = [
        ("model", f"{model.name} {model.dtype}".strip() if model else ""),
        ("engine", f"{info.engine} {info.engine_version} {info.device}".strip() if info else ""),
        ("batch", f"{load.running} run {load.waiting} wait {worker.in_flight} in flight" if load else ""),
        ("speed", f"{rate(load.tokens_per_s)} tok/s out, {rate(load.prompt_tokens_per_s)} in" if load else ""),
        ("TTFT", f"p50 {duration(ttft.ttft_p50)}  p99 {duration(ttft.ttft_p99)}" if ttft else ""),
        ("ITL", f"p50 {duration(itl.itl_p50)}  p99 {duration(itl.itl_p99)}" if itl else ""),
        ("prefix", f"{percent(load.cached_tokens / load.prompt_tokens)} hit" if load and load.prompt_tokens else ""),
        ("tokens", f"{count(load.generated_tokens)} out, {load.preemptions} preemptions" if load else ""),
        ("context", f"{count(model.max_context)}, blocks of {model.block_size}" if model and model.max_context else ""),
        ("KV memory", f"{size(model.kv_bytes)}, {_parts(model.tensor_parallel)}" if model and model.kv_bytes else ""),
        ("process", f"pid {worker.pid or UNKNOWN} / {worker.engine_pid or UNKNOWN}, {_memory(load)}"),
        ("up", _up(worker, view)),
        *(("index", _belief(belief)) for belief in worker.kv_beliefs[:2]),
    ]
    return [head, *fields(facts, width - 2, look, columns=3 if width >= 130 else 2, indent=1)]


def _belief(belief: KvBelief) -> str:
    how = f"told by batch {count(belief.seq)}" if belief.told else "estimated"
    return f"{belief.gateway_id} {count(belief.blocks)} blocks {how}"


def _parts(tensor_parallel: int) -> str:
    return "one device" if tensor_parallel <= 1 else f"{tensor_parallel} ways"


def _memory(load: Load | None) -> str:
    return size(load.rss_bytes if load and load.rss_bytes else None)


def _up(worker: WorkerView, view: View) -> str:
    started = worker.info.started_unix if worker.info else 0.0
    restarts = "1 restart" if worker.restarts == 1 else f"{worker.restarts} restarts"
    return f"{age(view.now_unix - started if started else None)}, {restarts}"
