"""A platform in memory: snapshots are handed to it, orders are written down."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

from control_plane.contracts.access import KeyList, KeySpec, KeyView
from control_plane.contracts.decision import DecisionView
from control_plane.contracts.errors import InferDeckError, NotFound
from control_plane.contracts.fleet import (
    ActionResult,
    DrainProgress,
    Event,
    GatewayView,
    Latency,
    ModelView,
    Pool,
    RequestPhase,
    RequestView,
    Snapshot,
    Stage,
    WorkerPhase,
    WorkerView,
)
from control_plane.contracts.policy import Limits, Policy
from control_plane.contracts.step import BlockSnapshot, StepFrame, TraceMode, TraceState
from control_plane.contracts.timeline import Span, Timeline
from control_plane.contracts.worker import Load, ModelInfo, WorkerInfo, WorkerState

NOW = 1_700_000_000.0


@dataclass
class MemoryPlatform:
    """Feed and operator at once. ``None`` in the queue breaks the connection, an error refuses it."""

    place: str = "~/.inferdeck"
    log: bytes = b""
    history: tuple[Event, ...] = ()
    refuse: InferDeckError | None = None
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    drains: list[DrainProgress] = field(default_factory=list)
    connections: int = 0
    closed: bool = False
    queue: asyncio.Queue[Snapshot | InferDeckError] = field(default_factory=asyncio.Queue)
    snapshot: BlockSnapshot | InferDeckError = field(default_factory=lambda: NotFound("no such worker"))
    times: Timeline | InferDeckError = field(default_factory=lambda: NotFound("no such request"))
    keys_there: KeyList | InferDeckError = field(default_factory=lambda: keys())
    decided: tuple[DecisionView, ...] | InferDeckError = ()
    decision_queue: asyncio.Queue[tuple[DecisionView, ...] | InferDeckError] = field(default_factory=asyncio.Queue)
    policy_there: Policy | InferDeckError = field(default_factory=Policy)
    step_queue: asyncio.Queue[StepFrame | InferDeckError] = field(default_factory=asyncio.Queue)
    log_queue: asyncio.Queue[bytes | InferDeckError] = field(default_factory=asyncio.Queue)
    drain_queue: asyncio.Queue[DrainProgress | InferDeckError] = field(default_factory=asyncio.Queue)

    async def watch(self) -> AsyncIterator[Snapshot]:
        self.connections += 1
        while True:
            item = await self.queue.get()
            if isinstance(item, InferDeckError):
                raise item
            yield item

    async def events(self) -> AsyncIterator[Event]:
        for event in self.history:
            yield event

    async def logs(self, target: str, tail_lines: int) -> AsyncIterator[bytes]:
        self.calls.append(("logs", target))
        if self.log:
            yield self.log
        while True:
            item = await self.log_queue.get()
            if isinstance(item, InferDeckError):
                raise item
            yield item

    async def steps(self, worker_id: str) -> AsyncIterator[StepFrame]:
        self.calls.append(("steps", worker_id))
        while True:
            item = await self.step_queue.get()
            if isinstance(item, InferDeckError):
                raise item
            yield item

    async def blocks(self, worker_id: str) -> BlockSnapshot:
        self.calls.append(("blocks", worker_id))
        if isinstance(self.snapshot, InferDeckError):
            raise self.snapshot
        return self.snapshot

    async def timeline(self, request_id: str) -> Timeline:
        self.calls.append(("timeline", request_id))
        if isinstance(self.times, InferDeckError):
            raise self.times
        return self.times

    async def explain(self, request_id: str) -> tuple[DecisionView, ...]:
        self.calls.append(("explain", request_id))
        if isinstance(self.decided, InferDeckError):
            raise self.decided
        found = tuple(decision for decision in self.decided if decision.request_id == request_id)
        if not found:
            raise NotFound(f"the decisions about request/{request_id} are not kept any more")
        return found

    async def decisions(self) -> AsyncIterator[tuple[DecisionView, ...]]:
        if isinstance(self.decided, InferDeckError):
            raise self.decided
        yield self.decided
        while True:
            item = await self.decision_queue.get()
            if isinstance(item, InferDeckError):
                raise item
            yield item

    async def keys(self) -> KeyList:
        if isinstance(self.keys_there, InferDeckError):
            raise self.keys_there
        return self.keys_there

    async def policy(self) -> Policy:
        if isinstance(self.policy_there, InferDeckError):
            raise self.policy_there
        return self.policy_there

    async def set_trace(self, worker_id: str, mode: TraceMode, every: int = 1) -> TraceState:
        if self.refuse is not None:
            raise self.refuse
        self.calls.append(("trace", worker_id, mode, every))
        return TraceState(mode, every)

    async def close(self) -> None:
        self.closed = True

    async def cordon(self, worker_id: str, *, dry_run: bool = False) -> ActionResult:
        return self._act("cordon", worker_id, dry_run=dry_run)

    async def uncordon(self, worker_id: str, *, dry_run: bool = False) -> ActionResult:
        return self._act("uncordon", worker_id, dry_run=dry_run)

    async def scale(self, pool: str, replicas: int, *, dry_run: bool = False) -> ActionResult:
        return self._act("scale", pool, replicas, dry_run=dry_run)

    async def cancel(self, request_id: str, *, dry_run: bool = False) -> ActionResult:
        return self._act("cancel", request_id, dry_run=dry_run)

    async def drain(self, worker_id: str, *, dry_run: bool = False) -> AsyncIterator[DrainProgress]:
        if dry_run:
            yield DrainProgress(worker_id, 3, message=f"would cordon {worker_id} and wait for 3 requests")
            return
        self._act("drain", worker_id, dry_run=False)
        while True:
            item = await self.drain_queue.get()
            if isinstance(item, InferDeckError):
                raise item
            yield item
            if item.done or item.timed_out:
                return

    @property
    def done(self) -> list[tuple[Any, ...]]:
        """The orders that were really given."""
        return [call for call in self.calls if call[0] not in ("logs", "steps", "blocks", "timeline", "explain")]

    def _act(self, *call: Any, dry_run: bool) -> ActionResult:
        if self.refuse is not None:
            raise self.refuse
        if dry_run:
            return ActionResult(True, f"would {call[0]} {call[1]}")
        self.calls.append(call)
        return ActionResult(True, f"{call[1]}: {call[0]} done")


def keys() -> KeyList:
    """Some of every state, and one with a name that a terminal would obey."""
    now = NOW + 119.5
    week = 7 * 86_400.0
    return KeyList(
        (
            KeyView("key-000000000001", "sk-inferdeck-9aXw", KeySpec("default", tier="enterprise"), now - 9 * week),
            KeyView(
                "key-000000000002",
                "sk-inferdeck-Kd3b",
                KeySpec("web shop", "acme", "paid", Limits(60, 10_000), ("smollm2-135m",), now + week),
                now - 8 * week,
                rotated_unix=now - 60,
                old_until_unix=now + 3540,
            ),
            KeyView(
                "key-000000000003",
                "sk-inferdeck-p0Qe",
                KeySpec("trial", "umbrella", "free", expires_unix=now - 9),
                now - week,
            ),
            KeyView(
                "key-000000000004",
                "sk-inferdeck-zzR1",
                KeySpec("[red]left\x1b[0m", "acme", "paid"),
                now - week,
                now - 7200,
            ),
        ),
        now,
    )


def worker(name: str, kv: float = 0.61, at: float = NOW, **changes: Any) -> WorkerView:
    model = ModelInfo("smollm2-135m", "builtin:smollm2-135m", "", "bfloat16", 2048, 49152, 32, 182, 512 << 20)
    number = sum(map(ord, name)) % 7
    load = Load(
        f"instance-{name}",
        at - 0.2,
        WorkerState.READY,
        running=10 + number,
        waiting=1 if kv > 0.8 else 0,
        total_blocks=182,
        used_blocks=round(182 * kv),
        kv_usage=kv,
        tokens_per_s=180.0 + 9 * number,
        prompt_tokens_per_s=240.0,
        generated_tokens=51_234,
        prompt_tokens=20_000,
        cached_tokens=14_800,
        preemptions=2,
        steps=18_402,
        finished=410,
        rss_bytes=1_340_000_000,
        cpu_s=340.0,
    )
    info = WorkerInfo(
        name, f"instance-{name}", 4711, 4712, at - 3725, "vllm", "0.32.0", model, WorkerState.READY, "", "cpu", 3.4
    )
    view = WorkerView(
        id=name,
        pool="smollm2",
        phase=WorkerPhase.READY,
        address="127.0.0.1:40001",
        pid=4711,
        engine_pid=4712,
        phase_since_unix=at - 3720,
        heartbeat_unix=at - 0.2,
        info=info,
        load=load,
        in_flight=load.running + load.waiting,
        latency=Latency(60, 120, 0.21, 1.9, 4000, 0.046, 0.09),
        log_path="/home/someone/.inferdeck/logs/worker.log",
    )
    return replace(view, **changes)


def request(name: str, worker_id: str = "smollm2-1", at: float = NOW, **changes: Any) -> RequestView:
    view = RequestView(
        id=name,
        gateway_id="g1",
        model="smollm2-135m",
        phase=RequestPhase.DECODING,
        worker_id=worker_id,
        key_id="key-1",
        stream=True,
        arrival_unix=at - 7.3,
        prompt_tokens=388,
        cached_tokens=128,
        output_tokens=143,
        max_tokens=256,
        ttft_s=0.62,
        itl_p50_s=0.047,
        duration_s=7.3,
        stages=(
            Stage("auth", 0.0, 0.0002),
            Stage("tokenise", 0.0002, 0.0011),
            Stage("queue", 0.0013, 0.412),
            Stage("route", 0.4133, 0.0001),
            Stage("prefill", 0.4134, 0.208),
            Stage("decode", 0.6214, 6.68),
        ),
        api="chat",
    )
    return replace(view, **changes)


def timeline_of(request: RequestView) -> Timeline:
    """Two prefill steps, then decode steps of which one is long, beside another request's prefill."""
    stages = [Span(stage.name, "gateway-1", stage.start_s, stage.duration_s) for stage in request.stages]
    chunks = [
        Span("step", "smollm2-1", 0.1 + n / 10, 0.08, "prefill", {"step": str(18_400 + n), "tokens": tokens})
        for n, tokens in enumerate(("512", "100"))
    ]
    chunks[0].attributes["cached_tokens"] = "64"
    decodes = [
        Span("step", "smollm2-1", 0.5 + n / 20, 0.05, "decode", {"step": str(18_410 + n), "batch": str(2 + n % 3)})
        for n in range(20)
    ]
    long = Span("step", "smollm2-1", 1.6, 0.4, "decode", {"step": "18430", "batch": "5", "prefill_beside": "req-[/]9"})
    return Timeline(request, (*stages, *chunks, *decodes, long), missing_steps=3)


def snapshot(
    at: float = NOW,
    workers: int | tuple[WorkerView, ...] = 2,
    requests: int | tuple[RequestView, ...] = 8,
    revision: int = 1,
    **changes: Any,
) -> Snapshot:
    """A platform that works, with so many workers and requests, or with these."""
    pace = at - NOW
    if isinstance(workers, int):
        names = [f"smollm2-{index + 1}" for index in range(workers)]
        workers = tuple(worker(name, _kv(pace, index), at) for index, name in enumerate(names))
    if isinstance(requests, int):
        requests = _requests(requests, [view.id for view in workers], at)
    return _platform(at, workers, requests, revision, changes)


def _requests(number: int, names: list[str], at: float) -> tuple[RequestView, ...]:
    phases = (RequestPhase.DECODING, RequestPhase.DECODING, RequestPhase.DISPATCHED, RequestPhase.QUEUED)
    listed = [
        request(
            f"req-{5000 + index:x}",
            names[index % len(names)] if names and index % 4 != 3 else "",
            at,
            phase=phases[index % 4],
            arrival_unix=at - 1.3 * (index + 1),
            output_tokens=(29 * index) % 256 if index % 4 < 2 else 0,
            ttft_s=0.2 + 0.03 * index if index % 4 < 2 else 0.0,
            itl_p50_s=0.047 if index % 4 < 2 else 0.0,
        )
        for index in range(number)
    ]
    ended = [
        request("req-4fa", "smollm2-1", at, phase=RequestPhase.FINISHED, reason="stop", arrival_unix=at - 30),
        request(
            "req-4f9", "smollm2-1", at, phase=RequestPhase.CANCELLED, reason="request_cancelled", arrival_unix=at - 33
        ),
        request("req-4f8", "smollm2-1", at, phase=RequestPhase.FAILED, reason="worker_lost", arrival_unix=at - 36),
    ]
    return tuple(listed + ended)


def _platform(
    at: float,
    workers: tuple[WorkerView, ...],
    requests: tuple[RequestView, ...],
    revision: int,
    changes: dict[str, Any],
) -> Snapshot:
    pace, count = at - NOW, len(workers)
    events = (
        Event(1, NOW - 62, "platform_started", "control-plane/cp-1", "control plane started"),
        Event(2, NOW - 50, "worker_ready", "worker/smollm2-1", "ready after 3.4 s"),
        Event(3, NOW - 49, "worker_ready", "worker/smollm2-2", "ready after 3.5 s"),
        Event(4, NOW - 21, "worker_lost", "worker/smollm2-2", "no heartbeat for 5 s", "error"),
        Event(5, NOW - 11, "worker_ready", "worker/smollm2-2", "restarted, ready after 3.3 s", "warning"),
    )
    total = 4000 + int(6.3 * pace)
    values: dict[str, Any] = {
        "pools": (Pool("smollm2", "smollm2-135m", "vllm", count, count, count, "builtin:smollm2-135m"),),
        "workers": workers,
        "gateways": (
            GatewayView(
                "g1",
                4000,
                "http://127.0.0.1:8080",
                True,
                NOW - 3700,
                at,
                sum(request.phase.active for request in requests),
                1,
                total,
                {200: total - 40, 429: 31 + int(0.4 * pace), 503: 9},
                Latency(60, 240, 0.21, 1.9, 8000, 0.046, 0.09),
                412.0,
                210 << 20,
                40 + 0.12 * pace,
            ),
        ),
        "requests": requests,
        "models": (ModelView("smollm2-135m", "smollm2", "builtin:smollm2-135m", 2048, count, "vllm"),),
        "events": events,
    }
    return Snapshot(revision, at, "cp-1", "0.1.0", **(values | changes))


def _kv(pace: float, index: int) -> float:
    return round(0.55 + 0.35 * math.sin(pace / 14 + index * 1.7), 3)
