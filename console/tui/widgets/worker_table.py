"""The workers: state, KV use, batch, latency, speed."""

from __future__ import annotations

from rich.style import Style

from console.tui.live.loads import kv_use, load_now
from console.tui.render.bar import kv_bar
from console.tui.render.figures import UNKNOWN, age, count, duration, percent, rate, size
from console.tui.render.spans import Spans, middle
from console.tui.render.states import worker_state
from console.tui.widgets.table import Column, Context, Table
from control_plane.contracts.fleet import WorkerView
from control_plane.contracts.worker import Load


def worker_table() -> Table[WorkerView]:
    return Table(COLUMNS, lambda worker: worker.id, _haystack, empty="no worker yet", name="workers")


def _haystack(worker: WorkerView) -> str:
    model = worker.info.model.name if worker.info and worker.info.model else ""
    return " ".join((worker.id, worker.pool, worker.phase.name, worker.reason, model))


def _load(worker: WorkerView, at: Context) -> Load | None:
    return load_now(worker, at.view.now_unix)


def _number(text: str, at: Context, style: Style | None = None) -> Spans:
    palette = at.look.palette
    return [(text, palette.unknown if text == UNKNOWN else style or palette.text)]


def _pair(p50: float, p99: float, at: Context) -> Spans:
    return [(f"{duration(p50):>5}", at.look.palette.text), (f" {duration(p99):>5}", at.look.palette.dim)]


def _state(worker: WorkerView, at: Context) -> Spans:
    state = worker_state(worker, at.view.now_unix, at.look, wide=at.width >= 16)
    spans = [(f"{state.glyph} {state.word}", state.style)]
    return [*spans, (f"  {worker.reason}", at.look.palette.dim)] if worker.reason and at.width >= 24 else spans


def _name(worker: WorkerView, at: Context) -> Spans:
    return [(middle(worker.id, at.width, at.look.glyphs.ellipsis), at.look.palette.title)]


def _running(worker: WorkerView, at: Context) -> Spans:
    load = _load(worker, at)
    return _number(count(load.running if load else None), at)


def _waiting(worker: WorkerView, at: Context) -> Spans:
    load = _load(worker, at)
    if load is None:
        return _number(UNKNOWN, at)
    return _number(count(load.waiting), at, at.look.palette.watch if load.waiting else None)


def _ttft(worker: WorkerView, at: Context) -> Spans:
    latency = worker.latency
    if latency is None or not latency.ttft_count:
        return _number(UNKNOWN, at)
    return _pair(latency.ttft_p50, latency.ttft_p99, at)


def _itl(worker: WorkerView, at: Context) -> Spans:
    latency = worker.latency
    if latency is None or not latency.itl_count:
        return _number(UNKNOWN, at)
    return _pair(latency.itl_p50, latency.itl_p99, at)


def _tokens(worker: WorkerView, at: Context) -> Spans:
    load = _load(worker, at)
    return _number(rate(load.tokens_per_s if load else None), at, at.look.palette.series)


def _restarts(worker: WorkerView, at: Context) -> Spans:
    return _number(count(worker.restarts), at, at.look.palette.watch if worker.restarts else at.look.palette.dim)


def _hits(worker: WorkerView, at: Context) -> Spans:
    load = _load(worker, at)
    return _number(percent(load.cached_tokens / load.prompt_tokens if load and load.prompt_tokens else None), at)


def _memory(worker: WorkerView, at: Context) -> Spans:
    load = _load(worker, at)
    return _number(size(load.rss_bytes if load and load.rss_bytes else None), at)


def _device(worker: WorkerView, at: Context) -> Spans:
    return _number(worker.info.device if worker.info and worker.info.device else UNKNOWN, at)


def _heard(worker: WorkerView, at: Context) -> Spans:
    silent = max(0.0, at.view.now_unix - worker.heartbeat_unix) if worker.heartbeat_unix else None
    return _number(age(silent), at, at.look.palette.dim)


COLUMNS: tuple[Column[WorkerView], ...] = (
    Column("state", 10, _state, grow=3),
    Column("worker", 9, _name, grow=2, whole=lambda worker: worker.id),
    Column("KV cache", 12, lambda worker, at: kv_bar(kv_use(worker, at.view.now_unix), at.width, at.look), grow=3),
    Column("run", 3, _running, right=True),
    Column("wait", 4, _waiting, right=True),
    Column("flight", 6, lambda worker, at: _number(count(worker.in_flight), at), rank=5, right=True),
    Column("TTFT 50/99", 11, _ttft, rank=1, right=True),
    Column("ITL 50/99", 11, _itl, rank=2, right=True),
    Column("tok/s", 5, _tokens, right=True),
    Column("rst", 3, _restarts, rank=3, right=True),
    Column("hits", 4, _hits, rank=6, right=True),
    Column("memory", 7, _memory, rank=7, right=True),
    Column("heard", 5, _heard, rank=8, right=True),
    Column("device", 6, _device, rank=9, grow=1),
)
