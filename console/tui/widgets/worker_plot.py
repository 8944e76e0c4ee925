"""One worker's plot, with its numbers above it."""

from __future__ import annotations

from console.tui.deck import deck_of
from console.tui.live.board import View
from console.tui.live.loads import kv_use, load_now
from console.tui.render.chart import SMALLEST_HEIGHT, SMALLEST_WIDTH, chart, dots
from console.tui.render.figures import percent, rate
from console.tui.render.spans import Span, Spans, greyed, width_of
from console.tui.render.states import kv_band, worker_state
from console.tui.widgets.lines import Lines

SPAN_S = 120.0


class WorkerPlot(Lines):
    DEFAULT_CSS = "WorkerPlot { height: 1fr; }"

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self._drawn_for: tuple[object, ...] = ()
        self._chart: list[list[Span]] = []
        self._shown: tuple[str | None, View, float, bool] | None = None

    def show(self, worker_id: str | None, view: View, span_s: float = SPAN_S, *, current: bool = False) -> None:
        """Draw this worker up to the view's moment; None leaves the place empty."""
        self._shown = (worker_id, view, span_s, current)
        if worker_id is None or self.size.width <= 0:
            return self.put([])
        width, height = self.size.width - 1, self.size.height - 1
        worker = view.worker(worker_id)
        look = deck_of(self).look
        palette = look.palette
        title: list[Span] = [(worker_id, palette.title if current else palette.text)]
        if worker is not None:
            state = worker_state(worker, view.now_unix, look)
            load = load_now(worker, view.now_unix)
            use = kv_use(worker, view.now_unix)
            mark, style = kv_band(use, look)
            title = [(f" {state.glyph} ", state.style), *title, (f" KV{percent(use):>5}{mark}", style)]
            speed = f"tok/s {rate(load.tokens_per_s if load else None)}"
            # Above the scale that is its own, as what is before it is above the other.
            title += [(" " * max(1, width - width_of(title) - len(speed)), palette.text), (speed, palette.series)]
        lines: list[Spans] = [title]
        if width >= SMALLEST_WIDTH and height >= SMALLEST_HEIGHT:
            samples = view.history.window(worker_id, view.now_unix, span_s, dots(width))
            drawn_for = (samples, span_s, width, height)
            if drawn_for != self._drawn_for:
                self._drawn_for = drawn_for
                self._chart = chart(samples, span_s, width, height, look)
            lines += self._chart
        self.put([greyed(line, palette.faint) for line in lines] if view.stale else lines)
        return None

    def on_resize(self) -> None:
        if self._shown is not None:
            worker_id, view, span_s, current = self._shown
            self.show(worker_id, view, span_s, current=current)
