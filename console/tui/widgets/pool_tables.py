"""Pools, models, gateways and routers: small tables."""

from __future__ import annotations

from console.pressure import band_words, queue_words
from console.tui.render.figures import UNKNOWN, age, count, duration, percent, rate, size
from console.tui.render.look import Look
from console.tui.render.spans import Spans
from console.tui.widgets.table import Column, Context, Table
from control_plane.contracts.fleet import GatewayView, ModelView, Pool, RouterView


def pool_table() -> Table[Pool]:
    return Table(POOLS, lambda pool: pool.name, _pool_words, empty="no pool", can_mark=False, name="pools")


def model_table() -> Table[ModelView]:
    # A name of the policy may be a model's, too.
    return Table(
        MODELS,
        lambda model: f"{model.name} {model.kind}",
        _model_words,
        empty="no model",
        can_mark=False,
        name="models",
    )


def gateway_table() -> Table[GatewayView]:
    return Table(
        GATEWAYS, lambda gateway: gateway.id, _gateway_words, empty="no gateway", can_mark=False, name="gateways"
    )


def router_table() -> Table[RouterView]:
    return Table(
        ROUTERS,
        lambda router: router.id,
        lambda router: f"{router.id} {router.address}",
        empty="inside the gateways",
        can_mark=False,
        name="routers",
    )


def _pool_words(pool: Pool) -> str:
    return " ".join((pool.name, pool.model, pool.engine, pool.source))


def _model_words(model: ModelView) -> str:
    return " ".join((model.name, model.pool, model.engine, model.source, model.kind, model.leads_to))


def _leads(model: ModelView) -> str:
    return f"leads to {model.leads_to}" if model.leads_to else ""


def _gateway_words(gateway: GatewayView) -> str:
    return f"{gateway.id} {gateway.url}"


def _text(text: str, look: Look) -> Spans:
    return [(text or UNKNOWN, look.palette.text if text else look.palette.unknown)]


def _pool_state(pool: Pool, at: Context) -> Spans:
    palette, glyphs = at.look.palette, at.look.glyphs
    if pool.ready >= pool.desired:
        return [(f"{glyphs.ready} {pool.ready} of {pool.desired}", palette.good)]
    glyph, style = (glyphs.starting, palette.watch) if pool.ready else (glyphs.failed, palette.bad)
    return [(f"{glyph} {pool.ready} of {pool.desired}", style)]


def _band(pool: Pool, at: Context) -> Spans:
    palette = at.look.palette
    styles = {"good": palette.good, "watch": palette.watch, "busy": palette.watch, "reject": palette.bad}
    return [(band_words(pool), styles.get(pool.band, palette.unknown))]


def _queue(pool: Pool, at: Context) -> Spans:
    palette = at.look.palette
    return [(queue_words(pool, tiers=True), palette.watch if pool.queued else palette.text)]


def _gateway_state(gateway: GatewayView, at: Context) -> Spans:
    if gateway.ready:
        return [(f"{at.look.glyphs.ready} ready", at.look.palette.good)]
    return [(f"{at.look.glyphs.failed} {'lost' if gateway.lost else 'not ready'}", at.look.palette.bad)]


def _router_state(router: RouterView, at: Context) -> Spans:
    palette, glyphs = at.look.palette, at.look.glyphs
    if router.ready and not router.draining:
        return [(f"{glyphs.ready} ready", palette.good)]
    if router.draining and not router.lost:
        return [(f"{glyphs.starting} draining", palette.watch)]
    return [(f"{glyphs.failed} {'lost' if router.lost else 'not ready'}", palette.bad)]


def _told(router: RouterView, text: str, at: Context) -> Spans:
    """A figure of its own; unknown while it has not reported."""
    return _text(text if router.report_unix else "", at.look)


def _gateway_latency(gateway: GatewayView | RouterView, at: Context) -> Spans:
    latency = gateway.latency
    if latency is None or not latency.ttft_count:
        return _text("", at.look)
    return [
        (duration(latency.ttft_p50), at.look.palette.text),
        (f" {duration(latency.ttft_p99):>6}", at.look.palette.dim),
    ]


def _gateway_cpu(gateway: GatewayView, at: Context) -> Spans:
    measured = at.view.rates.gateways.get(gateway.id)
    return _text(percent(measured.cpu if measured else None), at.look)


def _gateway_rate(gateway: GatewayView, at: Context) -> Spans:
    measured = at.view.rates.gateways.get(gateway.id)
    return _text(rate(measured.requests if measured else None), at.look)


def _answers(gateway: GatewayView, at: Context) -> Spans:
    """How many answers of each class since the start: 2xx 4xx 5xx."""
    by_class = {kind: sum(n for status, n in gateway.responses.items() if status // 100 == kind) for kind in (2, 4, 5)}
    return [
        (f"{count(by_class[2])}", at.look.palette.good),
        (f" {count(by_class[4])}", at.look.palette.watch if by_class[4] else at.look.palette.dim),
        (f" {count(by_class[5])}", at.look.palette.bad if by_class[5] else at.look.palette.dim),
    ]


POOLS: tuple[Column[Pool], ...] = (
    Column("ready", 12, _pool_state),
    Column("pool", 12, lambda pool, at: [(pool.name, at.look.palette.title)], grow=1),
    Column("model", 16, lambda pool, at: _text(pool.model, at.look), grow=1),
    Column("desired", 7, lambda pool, at: _text(count(pool.desired), at.look), rank=1, right=True),
    Column("band", 11, _band),
    Column("queued", 8, _queue, rank=1, grow=1),
    Column("observed", 8, lambda pool, at: _text(count(pool.observed), at.look), rank=2, right=True),
    Column("engine", 9, lambda pool, at: _text(pool.engine, at.look), rank=3),
    Column("source", 20, lambda pool, at: _text(pool.source, at.look), rank=4, grow=2),
)
MODELS: tuple[Column[ModelView], ...] = (
    Column("model", 20, lambda model, at: [(model.name, at.look.palette.title)], grow=1),
    Column("pool", 12, lambda model, at: _text(model.pool, at.look), grow=1),
    Column("workers", 7, lambda model, at: _text(count(model.ready_workers), at.look), right=True),
    Column("context", 7, lambda model, at: _text(count(model.max_context or None), at.look), right=True),
    Column("engine", 9, lambda model, at: _text(model.engine or model.kind, at.look), rank=1),
    Column("source", 20, lambda model, at: _text(model.source or _leads(model), at.look), rank=2, grow=2),
)
GATEWAYS: tuple[Column[GatewayView], ...] = (
    Column("state", 12, _gateway_state),
    Column("gateway", 8, lambda gateway, at: [(gateway.id, at.look.palette.title)]),
    Column("url", 24, lambda gateway, at: _text(gateway.url, at.look), grow=1),
    Column("flight", 6, lambda gateway, at: _text(count(gateway.in_flight), at.look), right=True),
    Column("queued", 6, lambda gateway, at: _text(count(gateway.queued), at.look), rank=1, right=True),
    Column("req/s", 5, _gateway_rate, rank=2, right=True),
    Column("tok/s", 5, lambda gateway, at: _text(rate(gateway.tokens_per_s), at.look), rank=1, right=True),
    Column("2xx 4xx 5xx", 14, _answers, rank=3, right=True),
    Column("TTFT p50 p99", 13, _gateway_latency, rank=4, right=True),
    Column("cpu", 4, _gateway_cpu, rank=5, right=True),
    Column("memory", 7, lambda gateway, at: _text(size(gateway.rss_bytes or None), at.look), rank=6, right=True),
    Column(
        "up", 6, lambda gateway, at: _text(age(at.view.now_unix - gateway.started_unix), at.look), rank=7, right=True
    ),
)
ROUTERS: tuple[Column[RouterView], ...] = (
    Column("state", 12, _router_state),
    Column("router", 8, lambda router, at: [(router.id, at.look.palette.title)]),
    Column("address", 24, lambda router, at: _text(router.address, at.look), grow=1),
    Column("flight", 6, lambda router, at: _told(router, count(router.in_flight), at), right=True),
    Column("queued", 6, lambda router, at: _told(router, count(router.queued), at), rank=1, right=True),
    Column("tok/s", 5, lambda router, at: _told(router, rate(router.tokens_per_s), at), rank=1, right=True),
    Column("TTFT p50 p99", 13, _gateway_latency, rank=4, right=True),
    Column("memory", 7, lambda router, at: _text(size(router.rss_bytes or None), at.look), rank=6, right=True),
    Column(
        "up", 6, lambda router, at: _told(router, age(at.view.now_unix - router.started_unix), at), rank=7, right=True
    ),
)
