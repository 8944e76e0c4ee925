"""As many worker plots as there is room for; with more workers than that, the page with the current one."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container

from console.tui.live.board import View
from console.tui.widgets.worker_plot import SPAN_S, WorkerPlot

NARROWEST, LOWEST, HIGHEST = 32, 6, 14
_MOST = 24


class PlotGrid(Container):
    DEFAULT_CSS = "PlotGrid { layout: grid; height: 1fr; grid-gutter: 0 0; }"

    def __init__(self, *, name: str | None = None, span_s: float = SPAN_S) -> None:
        super().__init__(id=name)
        self._span_s = span_s
        self._shape = (0, 0)

    def compose(self) -> ComposeResult:
        yield from ()

    def shape(self, workers: int, width: int, height: int) -> tuple[int, int]:
        """Columns and rows that fit, no more than there are workers for; (0, 0) when nothing fits."""
        most_columns, most_rows = width // NARROWEST, height // LOWEST
        if not workers or not most_columns or not most_rows:
            return 0, 0
        rows = min(most_rows, -(-workers // most_columns), max(1, _MOST // most_columns))
        return min(most_columns, -(-workers // rows)), rows

    def show(self, view: View, current: str | None) -> None:
        ids = [worker.id for worker in view.workers]
        shape = columns, rows = self.shape(len(ids), self.size.width, self.size.height)
        per_page = columns * rows
        self._keep(shape)
        if not per_page:
            return
        page = ids.index(current) // per_page if current in ids else 0
        here = ids[page * per_page :][:per_page]
        for plot, name in zip(self.query(WorkerPlot), [*here, *[None] * per_page], strict=False):
            plot.show(name, view, self._span_s, current=name is not None and name == current)

    def _keep(self, shape: tuple[int, int]) -> None:
        """As many plot widgets as the shape has places."""
        if shape == self._shape:
            return
        self._shape = columns, rows = shape
        plots = list(self.query(WorkerPlot))
        for plot in plots[columns * rows :]:
            plot.remove()
        self.mount_all([WorkerPlot() for _ in range(columns * rows - len(plots))])
        if columns:
            self.styles.grid_size_columns = columns
            self.styles.grid_size_rows = rows
