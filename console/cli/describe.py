"""One object in full, as labelled lines; every line that has a source, and only those."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from console import figures
from console.cli.describe_access import ACCESS_TELLERS
from console.cli.describe_router import seen_lines
from console.hold_notes import hold_words
from console.plain.choice import choice_lines
from console.plain.resources import (
    EVENT_COLUMNS,
    RESOURCES,
    clock,
    gateway_status,
    limits_of,
    load_of,
    note_of,
    quantile,
    responses_of,
    router_status,
    status_of,
    time_of,
)
from console.plain.table import table
from console.plain.timeline import step_lines, timeline_lines
from console.plain.waterfall import meter
from console.pressure import band_words, queue_words
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
    WorkerView,
)
from control_plane.contracts.kv_belief import KvBelief
from control_plane.contracts.router_state import RouterState
from control_plane.contracts.timeline import Timeline

Line = tuple[str, str]
"""A label and its text; the text may hold names that others chose."""


def related(kind: str, row: Any, snapshot: Snapshot) -> dict[str, Sequence[Any]]:
    """What belongs to an object: its requests, workers and last events, by kind."""
    found: dict[str, Sequence[Any]] = {}
    if kind == "keys":
        found["requests"] = [r for r in snapshot.requests if r.key_id == row.id and r.phase.active]
    if kind not in RESOURCES:
        return found
    subject = f"{kind[:-1]}/{RESOURCES[kind].name(row)}"
    if kind == "workers":
        found["requests"] = [r for r in snapshot.requests if r.worker_id == row.id and r.phase.active]
    elif kind == "gateways":
        found["requests"] = [r for r in snapshot.requests if r.gateway_id == row.id and r.phase.active]
    elif kind == "routers":
        found["requests"] = [r for r in snapshot.requests if r.router_id == row.id and r.phase.active]
    elif kind == "pools":
        found["workers"] = [w for w in snapshot.workers if w.pool == row.name]
    elif kind == "models":
        found["workers"] = [w for w in snapshot.workers if w.pool == row.pool or _serves(w, row.targets)]
    found["events"] = [event for event in snapshot.events if event.subject == subject]
    return found


def _serves(worker: WorkerView, models: Sequence[str]) -> bool:
    return worker.info is not None and worker.info.model is not None and worker.info.model.name in models


def describe(
    kind: str,
    row: Any,
    snapshot: Snapshot,
    max_width: int | None,
    timeline: Timeline | None = None,
    *,
    steps: bool = False,
    state: RouterState | None = None,
) -> Iterator[Line | str]:
    """Labelled lines, then (as plain strings, already literal) tables and bars. ``timeline``: of a request; ``state``:
    of a router."""
    tellers: dict[str, Callable[[Any, Snapshot], Iterator[Line]]] = {
        "workers": _worker,
        "pools": _pool,
        "models": _model,
        "gateways": _gateway,
        "routers": _router,
        "requests": _request,
        "events": _event,
        **ACCESS_TELLERS,
    }
    yield from tellers[kind](row, snapshot)
    if state is not None:
        yield from seen_lines(state, max_width)
    if timeline is not None and timeline.spans:
        yield ""
        room = max(1, min(max_width or 100, 100) - 2)
        for line in timeline_lines(timeline, time_of(row, snapshot.taken_unix), room):
            yield "  " + line
        if steps:
            yield ""
            yield from ("  " + line for line in step_lines(timeline))
    for name, rows in related(kind, row, snapshot).items():
        if not rows:
            continue
        yield ""
        yield f"{name}:"
        columns = EVENT_COLUMNS if name == "events" else RESOURCES[name].columns(snapshot)
        made = table(rows, [c for c in columns if not c.wide], max_width and max(1, max_width - 2))
        yield from ("  " + line for line in made.lines)


def _worker(worker: WorkerView, snapshot: Snapshot) -> Iterator[Line]:
    now = snapshot.taken_unix
    info, load = worker.info, load_of(worker)
    yield "worker", worker.id
    phase, *more = status_of(worker).split(",")
    since = f" for {figures.age(now - worker.phase_since_unix)}" if worker.phase_since_unix else ""
    yield "status", " · ".join([phase + since, *more])
    if note := note_of(worker, now):
        yield "why", note
    yield "pool", worker.pool
    if info is not None and (model := info.model) is not None:
        split = f" · split {model.tensor_parallel} ways" if model.tensor_parallel > 1 else ""
        yield "model", f"{model.name} · {model.dtype or figures.NONE} · context {model.max_context:,}{split}"
        yield "source", " @ ".join(part for part in (model.source, model.revision[:12]) if part) or figures.NONE
    if info is not None:
        loaded = f" · loaded in {figures.seconds(info.load_s)}" if info.load_s else ""
        yield "engine", f"{info.engine} {info.engine_version} on {info.device or figures.NONE}{loaded}"
        yield "instance", info.instance_id
    processes = [f"pid {worker.pid}"] if worker.pid else []
    processes += [f"engine pid {worker.engine_pid}"] if worker.engine_pid else []
    yield "process", " · ".join([*processes, figures.plural(worker.restarts, "restart")])
    yield "address", worker.address or figures.NONE
    if load is not None:
        blocks = info.model.block_size if info and info.model else 0
        of = f" of {blocks} tokens" if blocks else ""
        yield (
            "kv cache",
            f"{meter(load.kv_usage)} {figures.percent(load.kv_usage)} · "
            f"{load.used_blocks} of {load.total_blocks} blocks{of}",
        )
        yield "batch", f"{load.running} running · {load.waiting} waiting · {worker.in_flight} in flight at the routers"
        yield (
            "speed",
            f"{figures.rate(load.tokens_per_s)} tok/s out · {figures.rate(load.prompt_tokens_per_s)} tok/s prompt",
        )
    yield from _latency(worker.latency)
    for belief in worker.kv_beliefs:
        yield "index", kv_belief(belief, now)
    if load is not None:
        cached = figures.percent(load.cached_tokens / load.prompt_tokens) if load.prompt_tokens else figures.NONE
        yield (
            "since start",
            f"{load.generated_tokens:,} tokens out · {load.prompt_tokens:,} prompt ({cached} cached) · "
            f"{load.finished:,} requests · {load.steps:,} steps · {load.preemptions:,} preemptions",
        )
        yield "memory", f"{figures.size(load.rss_bytes)} · {load.cpu_s:.1f} s of CPU"
        yield "sampled", f"{figures.seconds(max(0.0, now - load.sampled_unix))} ago"
    yield (
        "heartbeat",
        f"{figures.seconds(max(0.0, now - worker.heartbeat_unix))} ago" if worker.heartbeat_unix else "never",
    )
    yield "log", worker.log_path or figures.NONE


def kv_belief(belief: KvBelief, now: float) -> str:
    """What a router takes the worker to have cached, and how it knows."""
    held = f"{belief.gateway_id}: {figures.plural(belief.blocks, 'block')}"
    if not belief.told:
        why = f": {belief.unavailable}" if belief.unavailable else ""
        return f"{held} estimated from what it sent there{why}"
    heard = f", heard {figures.seconds(max(0.0, now - belief.heard_unix))} ago" if belief.heard_unix else ""
    missed = belief.gaps + belief.lost
    made_up = f" · {missed:,} missed batches made up for" if missed else ""
    return f"{held} told by batch {belief.seq:,}{heard}{made_up}"


def _latency(latency: Latency | None) -> Iterator[Line]:
    if latency is None:
        return
    for name, noun in (("ttft", "requests"), ("itl", "gaps")):
        number = getattr(latency, f"{name}_count")
        figure = f"p50 {quantile(latency, f'{name}_p50')} · p99 {quantile(latency, f'{name}_p99')}"
        yield name.upper(), f"{figure} · {number:,} {noun} in {figures.age(latency.window_s)}"


def _pool(pool: Pool, _: Snapshot) -> Iterator[Line]:
    yield "pool", pool.name
    yield "model", pool.model
    yield "source", pool.source or figures.NONE
    yield "engine", pool.engine
    yield "replicas", f"{pool.ready} ready · {pool.observed} observed · {pool.desired} desired"
    if pool.price_per_hour:
        yield "price", f"{figures.money(pool.price_per_hour)} a worker and hour"
    if pool.band:
        yield "band", f"{band_words(pool)} of full · by samples up to {figures.seconds(pool.sample_age_s)} old"
    yield "queue", queue_words(pool, tiers=True)


def _model(model: ModelView, _: Snapshot) -> Iterator[Line]:
    yield "model", model.name
    if model.kind:
        yield model.kind, model.leads_to
    yield "pool", model.pool or figures.NONE
    yield "source", model.source or figures.NONE
    yield "engine", model.engine or figures.NONE
    yield "context", f"{model.max_context:,} tokens" if model.max_context else figures.NONE
    yield "workers", f"{model.ready_workers} ready"
    if model.fallback:
        yield "fallback", f"{', '.join(model.fallback)} (without a healthy worker)"
    if not model.kind:
        yield "price", f"{figures.money(model.price_per_hour or None)} a worker and hour"


def _gateway(gateway: GatewayView, snapshot: Snapshot) -> Iterator[Line]:
    now = snapshot.taken_unix
    yield "gateway", gateway.id
    yield "status", gateway_status(gateway)
    yield "url", gateway.url or figures.NONE
    yield (
        "process",
        f"pid {gateway.pid}" + (f" · up {figures.age(now - gateway.started_unix)}" if gateway.started_unix else ""),
    )
    yield (
        "requests",
        f"{gateway.in_flight} in flight · {gateway.queued} queued · {gateway.requests_total:,} since start",
    )
    yield "responses", responses_of(gateway)
    yield "speed", f"{figures.rate(gateway.tokens_per_s)} tok/s"
    yield from _latency(gateway.latency)
    yield "limits", f"{limits_of(gateway)} · {gateway.reserved_tokens:,} tokens reserved"
    yield "memory", f"{figures.size(gateway.rss_bytes or None)} · {gateway.cpu_s:.1f} s of CPU"
    reported = gateway.report_unix
    yield "reported", f"{figures.seconds(max(0.0, now - reported))} ago" if reported else "never"


def _router(router: RouterView, snapshot: Snapshot) -> Iterator[Line]:
    now = snapshot.taken_unix
    yield "router", router.id
    yield "status", router_status(router)
    yield "address", router.address or figures.NONE
    yield (
        "process",
        f"pid {router.pid}" + (f" · up {figures.age(now - router.started_unix)}" if router.started_unix else ""),
    )
    yield "requests", f"{router.in_flight} in flight · {router.queued} queued · {router.requests_total:,} since start"
    yield "speed", f"{figures.rate(router.tokens_per_s)} tok/s"
    yield from _latency(router.latency)
    yield "memory", f"{figures.size(router.rss_bytes or None)} · {router.cpu_s:.1f} s of CPU"
    reported = router.report_unix
    yield "reported", f"{figures.seconds(max(0.0, now - reported))} ago" if reported else "never"


def _request(request: RequestView, snapshot: Snapshot) -> Iterator[Line]:
    yield "request", request.id
    reason = f" ({request.reason})" if request.reason else ""
    yield "phase", f"{request.phase.name.lower()}{reason}"
    yield "model", request.model + (f" · asked for {request.choice.asked}" if request.choice else "")
    if request.choice is not None:
        yield from choice_lines(request.choice)
    retries = f" · {figures.plural(request.retries, 'retry').replace('retrys', 'retries')}" if request.retries else ""
    yield "worker", (request.worker_id or figures.NONE) + retries
    tier = f" · tier {request.tier}" if request.tier else ""
    yield (
        "caller",
        f"key {request.key_id or figures.NONE}{tier} · {request.api or 'api unknown'} · "
        f"{'stream' if request.stream else 'plain'} · gateway {request.gateway_id}"
        + (f" · router {request.router_id}" if request.router_id else ""),
    )
    bound = f" of ≤{request.max_tokens:,}" if request.max_tokens else ""
    cached = f" ({request.cached_tokens:,} cached)" if request.phase is not RequestPhase.QUEUED else ""
    yield "tokens", f"{request.prompt_tokens:,} prompt{cached} · {request.output_tokens:,}{bound} out"
    if request.predicted_cached_tokens is not None:
        yield "prefix", belief_of(request)
    yield "cost", _cost(request)
    if request.arrival_unix:
        took = figures.seconds(time_of(request, snapshot.taken_unix))
        yield "arrived", f"{clock(request.arrival_unix)} · {took} {'so far' if request.phase.active else 'in all'}"
    for number, hold in enumerate(request.holds):
        yield "" if number else "queue", hold_words(hold)
    yield "TTFT", figures.seconds(request.ttft_s or None)
    yield "ITL", f"p50 {figures.seconds(request.itl_p50_s or None)}"
    if request.preemptions:
        times = "once" if request.preemptions == 1 else f"{request.preemptions} times"
        yield "preempted", f"{times}: its engine put it back to waiting, for want of KV blocks"


def belief_of(request: RequestView) -> str:
    """What its router believed to be cached, and what was."""
    believed = f"{request.predicted_cached_tokens or 0:,} tokens believed cached at {request.worker_id or figures.NONE}"
    if request.phase is not RequestPhase.FINISHED:
        return believed
    same = request.predicted_cached_tokens == request.cached_tokens
    return f"{believed} · {'as it was' if same else f'{request.cached_tokens:,} were'}"


def _cost(request: RequestView) -> str:
    """Of its share of the worker's time; without a price the time alone."""
    shared = f"{figures.seconds(request.worker_s)} of a worker's time, shared out" if request.worker_s else ""
    if not request.cost:
        return f"{figures.NONE} ({shared}; its pool has no price_per_hour)" if shared else figures.NONE
    per_hour = request.cost / request.worker_s * 3600
    return f"{figures.money(request.cost)} ({shared}, at {figures.money(per_hour)} an hour)"


def _event(event: Event, _: Snapshot) -> Iterator[Line]:
    yield "event", str(event.seq)
    yield "time", clock(event.at_unix)
    yield "kind", f"{event.kind} ({event.severity})"
    yield "subject", event.subject
    yield "message", event.message
