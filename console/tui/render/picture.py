"""The platform in one picture: clients → gateway → router → pools, with what each of them is doing now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.style import Style

from console.tui.live.board import View
from console.tui.live.loads import kv_use, load_now
from console.tui.render.bar import kv_bar
from console.tui.render.figures import UNKNOWN, count, duration, percent, rate, size
from console.tui.render.look import Look
from console.tui.render.spans import Span, Spans, fit, width_of
from control_plane.contracts.fleet import Latency, Pool, RequestPhase

HEIGHT = 7
_ROWS = 4
_ELSEWHERE = ", in another terminal, sends some "


@dataclass(frozen=True, slots=True)
class _Box:
    title: str
    rows: Sequence[Spans]
    edge: Style


def picture(view: View, width: int, look: Look) -> list[list[Span]]:
    """``HEIGHT`` lines: four boxes side by side, and the way that the tokens take back."""
    arrow = look.glyphs.across * 2 + look.glyphs.arrow if width >= 96 else look.glyphs.arrow
    gaps = len(arrow) * 3
    each = (width - gaps) // 4
    widths = (each, each, each, width - gaps - 3 * each)
    turn = width - widths[3] // 2
    boxes = (_clients(view, look), _gateway(view, look), _router(view, look), _pools(view, look, widths[3] - 3))
    lines = []
    for row in range(_ROWS + 2):
        line: list[Span] = []
        for index, (box, box_width) in enumerate(zip(boxes, widths, strict=True)):
            if index:
                line.append((arrow if row == 2 else " " * len(arrow), look.palette.accent))
            line += _box_row(box, row, box_width, look, turn - width if index == 3 else 0)
        lines.append(line)
    return [*lines, _way_back(view, turn, width, look)]


def _box_row(box: _Box, row: int, width: int, look: Look, way_out: int = 0) -> list[Span]:
    """``way_out`` is where the way back leaves the box, counted from its right edge."""
    glyphs = look.glyphs
    if row == 0:
        title = fit([(f" {box.title} ", look.palette.title)], min(width - 3, width_of([(box.title, box.edge)]) + 2))
        rest = width - 3 - width_of(title)
        return [
            (glyphs.corners[0] + glyphs.across, box.edge),
            *title,
            (glyphs.across * rest + glyphs.corners[1], box.edge),
        ]
    if row == _ROWS + 1:
        if not way_out:
            return [(glyphs.corners[2] + glyphs.across * (width - 2) + glyphs.corners[3], box.edge)]
        left = glyphs.corners[2] + glyphs.across * (width + way_out - 2)
        right = glyphs.across * (-way_out - 1) + glyphs.corners[3]
        return [(left, box.edge), (glyphs.tee_down, look.palette.accent), (right, box.edge)]
    body = fit(box.rows[row - 1] if row - 1 < len(box.rows) else [], width - 3, glyphs.ellipsis)
    return [(glyphs.down + " ", box.edge), *body, (glyphs.down, box.edge)]


def _clients(view: View, look: Look) -> _Box:
    active = [request for request in view.requests if request.phase.active]
    latency = _latency(view)
    rows = [
        _figure(look, count(len(active)) if view.snapshot else "–", "in flight"),
        _figure(look, rate(view.rates.total.requests), "req/s"),
        _pair(look, "TTFT", latency.ttft_p50 if latency.ttft_count else None, latency.ttft_p99),
        _pair(look, "ITL ", latency.itl_p50 if latency.itl_count else None, latency.itl_p99),
    ]
    return _Box("clients", rows, look.palette.edge)


def _gateway(view: View, look: Look) -> _Box:
    gateways = view.snapshot.gateways if view.snapshot else ()
    up = sum(gateway.ready for gateway in gateways)
    total = view.rates.total
    palette = look.palette
    state = (look.glyphs.ready, palette.good) if gateways and up == len(gateways) else (look.glyphs.failed, palette.bad)
    rss = sum(gateway.rss_bytes for gateway in gateways)
    rows: list[Spans] = [
        [state, (f" {up} of {len(gateways)} ready", palette.text)] if gateways else [("–", palette.unknown)],
        [*_figure(look, rate(total.refused), "4xx/s", palette.watch if total.refused else None)],
        [*_figure(look, rate(total.errors), "5xx/s", palette.bad if total.errors else None)],
        [*_figure(look, percent(total.cpu), "cpu"), (f" {size(rss or None)}", palette.dim)],
    ]
    return _Box(f"gateway ×{len(gateways)}", rows, palette.edge if up == len(gateways) else palette.bad)


def _router(view: View, look: Look) -> _Box:
    phases = [request.phase for request in view.requests]
    queued = phases.count(RequestPhase.QUEUED)
    known_now = view.snapshot is not None
    loads = [load for worker in view.workers if (load := load_now(worker, view.now_unix)) is not None]
    prompt = sum(load.prompt_tokens for load in loads)
    cached = sum(load.cached_tokens for load in loads)
    rows = [
        _figure(look, count(queued if known_now else None), "queued", look.palette.watch if queued else None),
        _figure(look, count(phases.count(RequestPhase.DISPATCHED) if known_now else None), "sent"),
        _figure(look, count(phases.count(RequestPhase.DECODING) if known_now else None), "decoding"),
        _figure(look, percent(cached / prompt if prompt else None), "prefix hits"),
    ]
    routers = view.snapshot.routers if view.snapshot else ()
    up = sum(router.ready for router in routers)
    title = f"router {up} of {len(routers)}" if up < len(routers) else f"router ×{up}" if routers else "router"
    edge = look.palette.bad if up < len(routers) else look.palette.watch if queued else look.palette.edge
    return _Box(title, rows, edge)


def _pools(view: View, look: Look, width: int) -> _Box:
    rows: list[Spans] = []
    shown = view.pools[: _ROWS // 2] if len(view.pools) > 1 else view.pools[:1]
    for pool in shown:
        rows += _pool_rows(view, pool, look, width)[: _ROWS // len(shown)]
    hurt = any(pool.ready < pool.desired for pool in view.pools)
    title = f"pool {shown[0].name}" if len(view.pools) == 1 else f"pools ×{len(view.pools)}"
    return _Box(title, rows or [[("–", look.palette.unknown)]], look.palette.watch if hurt else look.palette.edge)


def _pool_rows(view: View, pool: Pool, look: Look, width: int) -> list[Spans]:
    palette = look.palette
    workers = [worker for worker in view.workers if worker.pool == pool.name]
    uses = [use for worker in workers if (use := kv_use(worker, view.now_unix)) is not None]
    mean = sum(uses) / len(uses) if uses else None
    loads = [load for worker in workers if (load := load_now(worker, view.now_unix)) is not None]
    state = (look.glyphs.ready, palette.good) if pool.ready >= pool.desired else (look.glyphs.starting, palette.watch)
    bands = {"watch": palette.watch, "busy": palette.watch, "reject": palette.bad}
    band = [(f" {pool.band}", bands.get(pool.band, palette.dim))] if pool.band else []
    return [
        [state, (f" {pool.ready} of {pool.desired} ready", palette.text), *band],
        [("KV ", palette.dim), *kv_bar(mean, width - 3, look)],
        [
            *_figure(look, count(sum(load.running for load in loads) if loads else None), "run"),
            *_figure(look, count(sum(load.waiting for load in loads) if loads else None), "wait"),
        ],
        [(pool.model, palette.text), (f" {pool.engine}", palette.dim)],
    ]


def _way_back(view: View, turn: int, width: int, look: Look) -> list[Span]:
    glyphs, palette = look.glyphs, look.palette
    gateways = view.snapshot.gateways if view.snapshot else ()
    tokens = sum(gateway.tokens_per_s for gateway in gateways) if gateways else None
    words: list[Span] = [(rate(tokens), palette.title), (" tokens/s as they are born ", palette.dim)]
    if gateways and view.replay is None and not view.requests and not any(each.requests_total for each in gateways):
        words = [("no request yet: ", palette.dim), ("inferdeck load", palette.text), (_ELSEWHERE, palette.dim)]
    text: list[Span] = [(f"  {glyphs.up_arrow} ", palette.accent), *words, (glyphs.back_arrow, palette.accent)]
    line = glyphs.across * max(0, turn - width_of(text) - 1) + glyphs.down_left
    return fit([*text, (line, palette.accent)], width)


def _figure(look: Look, number: str, word: str, style: Style | None = None) -> list[Span]:
    return [(f"{number:>4} ", style or look.palette.text), (word, look.palette.dim)]


def _pair(look: Look, word: str, p50: float | None, p99: float) -> list[Span]:
    if p50 is None:
        return [(f"{word} ", look.palette.dim), (UNKNOWN, look.palette.unknown)]
    return [(f"{word} ", look.palette.dim), (duration(p50), look.palette.text), (f" {duration(p99)}", look.palette.dim)]


def _latency(view: View) -> Latency:
    """The latency that callers see; with several routers the worst of them, since quantiles do not add. A router that
    is inside its gateway is told of with that."""
    snapshot = view.snapshot
    told = [gateway.latency for gateway in snapshot.gateways] if snapshot else []
    told += [router.latency for router in snapshot.routers] if snapshot else []
    every = [latency for latency in told if latency]
    return max(every, key=lambda latency: latency.ttft_p99, default=Latency())
