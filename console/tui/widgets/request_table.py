"""The requests that run, and those that ended lately."""

from __future__ import annotations

from console.tui.render.figures import UNKNOWN, age, clock, count, duration, known, percent
from console.tui.render.look import Look
from console.tui.render.spans import Spans, middle
from console.tui.render.states import request_state
from console.tui.widgets.table import Column, Context, Table
from control_plane.contracts.fleet import RequestView


def request_table(*, of_one_worker: bool = False) -> Table[RequestView]:
    columns = [column for column in COLUMNS if not (of_one_worker and column.title == "worker")]
    return Table(columns, lambda request: request.id, _haystack, empty="no request yet", name="requests")


def ordered(requests: tuple[RequestView, ...]) -> list[RequestView]:
    """Those that run first, the newest on top; then those that ended, the latest on top."""
    running = [request for request in requests if request.phase.active]
    ended = [request for request in requests if not request.phase.active]
    running.sort(key=lambda request: (-request.arrival_unix, request.id))
    ended.sort(key=lambda request: (-(request.arrival_unix + request.duration_s), request.id))
    return running + ended


def _haystack(request: RequestView) -> str:
    words = (
        request.id,
        request.model,
        request.worker_id,
        request.key_id,
        request.phase.name,
        request.reason,
        request.api,
    )
    return " ".join(words)


def _text(text: str, look: Look) -> Spans:
    return [(text or UNKNOWN, look.palette.text if text else look.palette.unknown)]


def _state(request: RequestView, at: Context) -> Spans:
    state = request_state(request, at.look)
    return [(f"{state.glyph} {state.word}", state.style)]


def _name(request: RequestView, at: Context) -> Spans:
    return [(request.id, at.look.palette.title if request.phase.active else at.look.palette.dim)]


def _worker(request: RequestView, at: Context) -> Spans:
    return _text(middle(request.worker_id, at.width, at.look.glyphs.ellipsis), at.look)


def _prompt(request: RequestView, at: Context) -> Spans:
    """How many tokens, and how much of them came out of the prefix cache."""
    if not request.prompt_tokens:
        return _text("", at.look)
    hit = f" {percent(request.cached_tokens / request.prompt_tokens):>4}" if request.cached_tokens else "     "
    return [(count(request.prompt_tokens), at.look.palette.text), (hit, at.look.palette.dim)]


def _output(request: RequestView, at: Context) -> Spans:
    limit = f"/{count(request.max_tokens)}" if request.max_tokens else ""
    return [(count(request.output_tokens), at.look.palette.series), (limit, at.look.palette.dim)]


def _lasted(request: RequestView, at: Context) -> Spans:
    """Since the arrival while it runs; how long it took when it has ended."""
    if request.phase.active:
        return _text(age(at.view.now_unix - request.arrival_unix), at.look)
    return [(duration(known(request.duration_s)), at.look.palette.dim)]


COLUMNS: tuple[Column[RequestView], ...] = (
    Column("state", 10, _state, grow=1),
    Column("request", 13, _name, grow=2),
    Column("worker", 10, _worker, grow=1, whole=lambda request: request.worker_id),
    Column("prompt hit", 10, _prompt, rank=2, right=True),
    Column("output", 9, _output, right=True),
    Column("TTFT", 6, lambda request, at: _text(duration(known(request.ttft_s)), at.look), rank=1, right=True),
    Column("ITL", 6, lambda request, at: _text(duration(known(request.itl_p50_s)), at.look), rank=3, right=True),
    Column("time", 6, _lasted, right=True),
    Column("model", 12, lambda request, at: _text(request.model, at.look), rank=4, grow=1),
    Column("key", 10, lambda request, at: _text(request.key_id, at.look), rank=5, grow=1),
    Column("api", 11, lambda request, at: _text(request.api, at.look), rank=7),
    Column("since", 8, lambda request, at: _text(clock(request.arrival_unix), at.look), rank=6, right=True),
)
