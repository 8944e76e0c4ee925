"""What can be listed: for each kind the rows of a snapshot, its name, its columns and its data."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from console import figures
from console.event_message import event_message
from console.plain.data import plain
from console.plain.table import Column
from console.pressure import STYLES, band_words, queue_words
from control_plane.contracts.fleet import (
    Event,
    GatewayView,
    Latency,
    ModelView,
    Pool,
    RequestPhase,
    RequestView,
    RouterView,
    Snapshot,
    WorkerPhase,
    WorkerView,
)
from control_plane.contracts.sleep import SLEEP_LEVELS
from control_plane.contracts.worker import Load, WorkerState


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind. ``columns`` depend on the snapshot, whose clock ages are told by."""

    rows: Callable[[Snapshot], Sequence[Any]]
    name: Callable[[Any], str]
    columns: Callable[[Snapshot], Sequence[Column[Any]]]


_UNSAID = (
    "ttft_s",
    "itl_p50_s",
    "heartbeat_unix",
    "restart_unix",
    "report_unix",
    "worker_s",
    "cost",
    "price_per_hour",
)
"""What 0 says of: nobody has measured it, or said it."""


def data_of(row: Any) -> dict[str, Any]:
    """A row as JSON data. What was not measured is null, not zero."""
    values: dict[str, Any] = plain(row)
    _unmeasured(values)
    if isinstance(row, WorkerView):
        # A drain is on or over: one of the two is true, while the worker is cordoned for it.
        values |= {"draining": row.draining and not row.drained, "drained": row.drained, "status": status_of(row)}
    return values


def _unmeasured(values: dict[str, Any]) -> None:
    latency = values.get("latency")
    if isinstance(latency, dict):
        for kind in ("ttft", "itl"):
            if not latency[f"{kind}_count"]:
                latency[f"{kind}_p50"] = latency[f"{kind}_p99"] = None
    for name in _UNSAID:
        if name in values and not values[name]:
            values[name] = None


def status_of(worker: WorkerView) -> str:
    words = [worker.phase.name.lower()]
    if worker.draining:
        words.append("drained" if worker.drained else "draining")
    elif worker.cordoned:
        words.append("cordoned")
    return ",".join(words)


def worker_style(worker: WorkerView) -> str | None:
    if worker.phase is WorkerPhase.READY:
        return "watch" if worker.cordoned or worker.draining else "good"
    return "bad" if worker.phase in (WorkerPhase.LOST, WorkerPhase.FAILED) else "watch"


def load_of(worker: WorkerView) -> Load | None:
    """The load, unless it is only what a worker said before it was lost."""
    serving = (WorkerPhase.READY, WorkerPhase.STOPPING, WorkerPhase.ASLEEP)
    return worker.load if worker.phase in serving else None


def quantile(latency: Latency | None, name: str) -> str:
    if latency is None or not getattr(latency, f"{name.split('_')[0]}_count"):
        return figures.NONE
    return figures.seconds(getattr(latency, name))


def _latency(name: str, title: str, *, wide: bool = False) -> Column[Any]:
    return Column(title, lambda row: quantile(row.latency, name), right=True, wide=wide, keep=4)


def _load(title: str, tell: Callable[[Load], str], *, wide: bool = False, keep: int = 5) -> Column[WorkerView]:
    def value(worker: WorkerView) -> str:
        load = load_of(worker)
        return figures.NONE if load is None else tell(load)

    return Column(title, value, right=True, wide=wide, keep=keep)


def note_of(worker: WorkerView, now: float) -> str:
    """What a person must know of a worker that is not simply well."""
    if worker.restart_unix:
        return f"{worker.reason}; restart in {figures.age(max(0.0, worker.restart_unix - now))}"
    if words := sleep_words(worker):
        return words
    return "" if worker.phase is WorkerPhase.READY else worker.reason


def sleep_words(worker: WorkerView) -> str:
    """How it sleeps; empty while it is awake."""
    if worker.phase is not WorkerPhase.ASLEEP or worker.load is None:
        return ""
    if worker.load.state is WorkerState.WAKING:
        return "waking up"
    level = worker.load.sleep_level
    return f"level {level}: {SLEEP_LEVELS.get(level, figures.NONE)}"


def _since(now: float, then: float) -> str:
    return figures.age(max(0.0, now - then)) if then else figures.NONE


def _workers(snapshot: Snapshot) -> Sequence[Column[WorkerView]]:
    now = snapshot.taken_unix
    return (
        Column("NAME", lambda w: w.id, keep=9),
        Column("STATUS", status_of, keep=8, style=worker_style),
        _load("KV", lambda load: figures.percent(load.kv_usage), keep=7),
        _load("RUN", lambda load: str(load.running), keep=7),
        _load("WAIT", lambda load: str(load.waiting), keep=6),
        _load("TOK/S", lambda load: figures.rate(load.tokens_per_s)),
        _latency("ttft_p50", "TTFT P50"),
        _latency("ttft_p99", "TTFT P99"),
        _latency("itl_p50", "ITL P50"),
        _latency("itl_p99", "ITL P99"),
        Column("RESTARTS", lambda w: str(w.restarts), right=True, keep=2),
        Column("AGE", lambda w: _since(now, w.info.started_unix if w.info else w.phase_since_unix), right=True, keep=3),
        Column("POOL", lambda w: w.pool, wide=True, keep=2),
        Column("MODEL", lambda w: w.info.model.name if w.info and w.info.model else figures.NONE, wide=True, keep=2),
        Column("ENGINE", _engine, wide=True, keep=2),
        Column("DEVICE", lambda w: (w.info.device if w.info else "") or figures.NONE, wide=True, keep=2),
        _load("BLOCKS", lambda load: f"{load.used_blocks}/{load.total_blocks}", wide=True, keep=2),
        _load("RSS", lambda load: figures.size(load.rss_bytes), wide=True, keep=2),
        _load("CPU", lambda load: f"{load.cpu_s:.0f} s", wide=True, keep=2),
        Column("PID", lambda w: str(w.pid or figures.NONE), right=True, wide=True, keep=2),
        Column("ENGINE PID", lambda w: str(w.engine_pid or figures.NONE), right=True, wide=True, keep=1),
        Column("ADDRESS", lambda w: w.address or figures.NONE, wide=True, keep=1),
        Column("HEARTBEAT", lambda w: _since(now, w.heartbeat_unix), right=True, wide=True, keep=2),
        Column("NOTE", lambda w: _noted(w, now), keep=8 if any(map(is_simulated, snapshot.workers)) else 4),
    )


def is_simulated(worker: WorkerView) -> bool:
    """Whether its figures are a simulator's: whoever passes them on must say so."""
    return worker.info is not None and worker.info.engine == "sim"


def _noted(worker: WorkerView, now: float) -> str:
    return " · ".join(part for part in ("simulated" if is_simulated(worker) else "", note_of(worker, now)) if part)


def _engine(worker: WorkerView) -> str:
    return f"{worker.info.engine} {worker.info.engine_version}".strip() if worker.info else figures.NONE


def _pools(_: Snapshot) -> Sequence[Column[Pool]]:
    return (
        Column("NAME", lambda p: p.name, keep=9),
        Column("MODEL", lambda p: p.model, keep=6),
        Column("ENGINE", lambda p: p.engine, keep=4),
        Column("DESIRED", lambda p: str(p.desired), right=True, keep=8),
        Column("READY", lambda p: str(p.ready), right=True, keep=8, style=_pool_style),
        Column("OBSERVED", lambda p: str(p.observed), right=True, keep=7),
        Column("BAND", band_words, keep=8, style=lambda p: STYLES.get(p.band)),
        Column("QUEUED", lambda p: queue_words(p, tiers=True), keep=7),
        Column("SOURCE", lambda p: p.source or figures.NONE, keep=3),
        Column("PRICE/H", lambda p: figures.money(p.price_per_hour or None), right=True, wide=True, keep=2),
    )


def _pool_style(pool: Pool) -> str:
    return "good" if pool.ready >= pool.desired else "bad" if pool.ready == 0 else "watch"


_LEADING: Sequence[Column[ModelView]] = (
    Column("KIND", lambda m: m.kind or "model", keep=7),
    Column("LEADS TO", lambda m: m.leads_to or figures.NONE, keep=8),
    Column("FALLBACK", lambda m: ", ".join(m.fallback) or figures.NONE, keep=5),
)
"""Where the policy has names that lead to models."""


def _models(snapshot: Snapshot) -> Sequence[Column[ModelView]]:
    return (
        Column("NAME", lambda m: m.name, keep=9),
        Column("POOL", lambda m: m.pool or figures.NONE, keep=6),
        Column("ENGINE", lambda m: m.engine or figures.NONE, keep=5),
        Column("CONTEXT", lambda m: figures.count(m.max_context or None), right=True, keep=4),
        Column("READY WORKERS", lambda m: str(m.ready_workers), right=True, keep=8),
        *(_LEADING if any(model.kind or model.fallback for model in snapshot.models) else ()),
        Column("SOURCE", lambda m: m.source or figures.NONE, keep=3),
        Column("PRICE/H", lambda m: figures.money(m.price_per_hour or None), right=True, wide=True, keep=2),
    )


def _gateways(snapshot: Snapshot) -> Sequence[Column[GatewayView]]:
    now = snapshot.taken_unix
    return (
        Column("NAME", lambda g: g.id, keep=9),
        Column("STATUS", gateway_status, keep=8, style=_gateway_style),
        Column("URL", lambda g: g.url or figures.NONE, keep=7),
        Column("IN-FLIGHT", lambda g: str(g.in_flight), right=True, keep=6),
        Column("QUEUED", lambda g: str(g.queued), right=True),
        Column("REQUESTS", lambda g: figures.count(g.requests_total), right=True),
        Column("TOK/S", lambda g: figures.rate(g.tokens_per_s), right=True),
        _latency("ttft_p50", "TTFT P50"),
        _latency("itl_p50", "ITL P50"),
        Column("AGE", lambda g: _since(now, g.started_unix), right=True, keep=3),
        _latency("ttft_p99", "TTFT P99", wide=True),
        _latency("itl_p99", "ITL P99", wide=True),
        Column("RESPONSES", responses_of, wide=True, keep=2),
        Column("RSS", lambda g: figures.size(g.rss_bytes or None), right=True, wide=True, keep=2),
        Column("CPU", lambda g: f"{g.cpu_s:.1f} s", right=True, wide=True, keep=2),
        Column("LIMITS", limits_of, wide=True, keep=2, style=_limits_style),
        Column("PID", lambda g: str(g.pid or figures.NONE), right=True, wide=True, keep=2),
    )


def _routers(snapshot: Snapshot) -> Sequence[Column[RouterView]]:
    now = snapshot.taken_unix
    return (
        Column("NAME", lambda r: r.id, keep=9),
        Column("STATUS", router_status, keep=8, style=_router_style),
        Column("ADDRESS", lambda r: r.address or figures.NONE, keep=7),
        _reported("IN-FLIGHT", lambda r: str(r.in_flight), keep=6),
        _reported("QUEUED", lambda r: str(r.queued)),
        _reported("REQUESTS", lambda r: figures.count(r.requests_total)),
        _reported("TOK/S", lambda r: figures.rate(r.tokens_per_s)),
        _latency("ttft_p50", "TTFT P50"),
        _latency("itl_p50", "ITL P50"),
        Column("AGE", lambda r: _since(now, r.started_unix), right=True, keep=3),
        _latency("ttft_p99", "TTFT P99", wide=True),
        _latency("itl_p99", "ITL P99", wide=True),
        _reported("RSS", lambda r: figures.size(r.rss_bytes), wide=True, keep=2),
        _reported("CPU", lambda r: f"{r.cpu_s:.1f} s", wide=True, keep=2),
        Column("PID", lambda r: str(r.pid or figures.NONE), right=True, wide=True, keep=2),
    )


def _reported(
    title: str, tell: Callable[[RouterView], str], *, wide: bool = False, keep: int = 5
) -> Column[RouterView]:
    """A router's own figure, which nobody knows before it has reported."""
    return Column(title, lambda r: tell(r) if r.report_unix else figures.NONE, right=True, wide=wide, keep=keep)


def router_status(router: RouterView) -> str:
    return "lost" if router.lost else "draining" if router.draining else "ready" if router.ready else "not ready"


def _router_style(router: RouterView) -> str:
    return "watch" if router.draining and not router.lost else "good" if router.ready else "bad"


def limits_of(gateway: GatewayView) -> str:
    """Where its rate limits are counted."""
    return {"": "local", "up": "shared", "down": "store down"}.get(gateway.limit_store, gateway.limit_store)


def _limits_style(gateway: GatewayView) -> str | None:
    return "bad" if gateway.limit_store == "down" else None


def gateway_status(gateway: GatewayView) -> str:
    status = "lost" if gateway.lost else "ready" if gateway.ready else "not ready"
    return f"{status}, limit store down" if gateway.limit_store == "down" else status


def _gateway_style(gateway: GatewayView) -> str:
    return "good" if gateway.ready and gateway.limit_store != "down" else "bad"


def responses_of(gateway: GatewayView) -> str:
    return " ".join(f"{status}:{number}" for status, number in sorted(gateway.responses.items())) or figures.NONE


def _requests(snapshot: Snapshot) -> Sequence[Column[RequestView]]:
    now = snapshot.taken_unix
    return (
        Column("ID", lambda r: r.id, keep=9),
        Column("MODEL", lambda r: r.model, keep=4),
        Column("WORKER", lambda r: r.worker_id or figures.NONE, keep=7),
        Column("PHASE", lambda r: r.phase.name.lower(), keep=8, style=request_style),
        Column("PROMPT", lambda r: str(r.prompt_tokens), right=True, keep=5),
        Column("CACHED", cached_of, right=True, keep=3),
        Column("PREDICTED", predicted_of, right=True, wide=True, keep=1),
        Column(
            "OUTPUT",
            lambda r: f"{r.output_tokens}/{r.max_tokens}" if r.max_tokens else str(r.output_tokens),
            right=True,
        ),
        Column("TTFT", lambda r: figures.seconds(r.ttft_s or None), right=True),
        Column("ITL P50", lambda r: figures.seconds(r.itl_p50_s or None), right=True),
        Column("TIME", lambda r: figures.seconds(time_of(r, now)), right=True, keep=4),
        Column("KEY", lambda r: r.key_id or figures.NONE, keep=2),
        Column("TIER", lambda r: r.tier or figures.NONE, wide=True, keep=2),
        Column("PREEMPTED", lambda r: str(r.preemptions), right=True, wide=True, keep=1),
        Column("API", lambda r: r.api or figures.NONE, wide=True, keep=1),
        Column("STREAM", lambda r: "yes" if r.stream else "no", wide=True, keep=1),
        Column("GATEWAY", lambda r: r.gateway_id, wide=True, keep=1),
        Column("ROUTER", lambda r: r.router_id or figures.NONE, wide=True, keep=1),
        Column("RETRIES", lambda r: str(r.retries), right=True, wide=True, keep=1),
        Column("REASON", lambda r: r.reason or figures.NONE, wide=True, keep=2),
        Column("ASKED FOR", lambda r: r.choice.asked if r.choice else r.model, wide=True, keep=2),
        Column("COST", lambda r: figures.money(r.cost or None), right=True, wide=True, keep=2),
    )


def cached_of(request: RequestView) -> str:
    """Tokens of the prompt that were cached, which its worker tells at the end."""
    return figures.NONE if request.phase.active and not request.cached_tokens else str(request.cached_tokens)


def predicted_of(request: RequestView) -> str:
    """Tokens of the prompt that its router believed to be cached where it sent it."""
    predicted = request.predicted_cached_tokens
    return figures.NONE if predicted is None else str(predicted)


def time_of(request: RequestView, now: float) -> float:
    """How long it took, or has taken so far, in seconds."""
    if request.phase.active and request.arrival_unix:
        return max(request.duration_s, now - request.arrival_unix)
    return request.duration_s


def request_style(request: RequestView) -> str | None:
    if request.phase is RequestPhase.FAILED:
        return "bad"
    return "watch" if request.phase in (RequestPhase.QUEUED, RequestPhase.CANCELLED) else None


def _events(_: Snapshot) -> Sequence[Column[Event]]:
    return EVENT_COLUMNS


def clock(at_unix: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_unix))


def event_style(event: Event) -> str | None:
    return {"error": "bad", "warning": "watch"}.get(event.severity)


EVENT_COLUMNS: Sequence[Column[Event]] = (
    Column("TIME", lambda e: clock(e.at_unix), keep=8),
    Column("SEVERITY", lambda e: e.severity, keep=3, style=event_style),
    Column("KIND", lambda e: e.kind, keep=6),
    Column("SUBJECT", lambda e: e.subject, keep=7),
    Column("MESSAGE", event_message, keep=9),
    Column("SEQ", lambda e: str(e.seq), right=True, wide=True, keep=1),
)

RESOURCES: dict[str, Resource] = {
    "workers": Resource(lambda s: s.workers, lambda w: w.id, _workers),
    "pools": Resource(lambda s: s.pools, lambda p: p.name, _pools),
    "models": Resource(lambda s: s.models, lambda m: m.name, _models),
    "gateways": Resource(lambda s: s.gateways, lambda g: g.id, _gateways),
    "routers": Resource(lambda s: s.routers, lambda r: r.id, _routers),
    "requests": Resource(lambda s: s.requests, lambda r: r.id, _requests),
    "events": Resource(lambda s: s.events, lambda e: str(e.seq), _events),
}
