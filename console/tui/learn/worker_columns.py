"""The table of workers beside a lesson's words: what lessons speak of, in as little room as there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from console.tui.live.loads import kv_use
from console.tui.render.bar import kv_bar
from console.tui.render.figures import UNKNOWN, duration, percent
from console.tui.render.spans import Spans
from console.tui.widgets.table import Column, Context
from console.tui.widgets.worker_table import COLUMNS
from control_plane.contracts.fleet import WorkerView

WIDE_FROM: Final = 72
"""Cells from which on there is room for a bar, and for two quantiles."""

Share = Callable[[WorkerView], float | None]


def worker_columns(hits: Share, *, wide: bool) -> Sequence[Column[WorkerView]]:
    """``hits`` is the share of a worker's prompt tokens that came out of its cache."""

    def hit(worker: WorkerView, at: Context) -> Spans:
        return _figure(percent(hits(worker)), at)

    by_title = {column.title: column for column in COLUMNS}
    ours = {
        "worker": replace(by_title["worker"], title="worker" if wide else "id", width=6 if wide else 3),
        "hits": Column("hits", 4, hit, rank=1, right=True),
    }
    if wide:
        return tuple(ours.get(column.title, column) for column in COLUMNS)
    ours |= {
        "KV cache": Column("KV", 7, lambda worker, at: kv_bar(kv_use(worker, at.view.now_unix), at.width, at.look)),
        "TTFT 50/99": Column("TTFT", 5, _ttft, right=True),
        "ITL 50/99": Column("ITL", 5, _itl, right=True),
    }
    kept = ("state", "worker", "KV cache", "run", "wait", "TTFT 50/99", "ITL 50/99", "tok/s", "hits")
    return tuple(ours.get(title, by_title[title]) for title in kept)


def _ttft(worker: WorkerView, at: Context) -> Spans:
    latency = worker.latency
    return _figure(duration(latency.ttft_p50) if latency is not None and latency.ttft_count else UNKNOWN, at)


def _itl(worker: WorkerView, at: Context) -> Spans:
    latency = worker.latency
    return _figure(duration(latency.itl_p50) if latency is not None and latency.itl_count else UNKNOWN, at)


def _figure(text: str, at: Context) -> Spans:
    return [(text, at.look.palette.unknown if text == UNKNOWN else at.look.palette.text)]
