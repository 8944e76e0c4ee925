"""An operators' API on contract dataclasses, in threads of its own, so that a command can run in the test's process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import grpc

from control_plane.contracts.decision import DecisionReplay, DecisionView, Explanation
from control_plane.contracts.errors import InferDeckError, NotFound, Unauthenticated
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
    ShutdownProgress,
    Snapshot,
    Stage,
    WorkerPhase,
    WorkerView,
)
from control_plane.contracts.hold import Hold
from control_plane.contracts.router_state import RouterState
from control_plane.contracts.step import BlockSnapshot, EngineStep, StepFrame, TraceMode, TraceState
from control_plane.contracts.v1 import decision_pb2, routing_pb2, worker_pb2
from control_plane.contracts.v1 import operator_pb2 as pb
from control_plane.contracts.v1.operator_pb2_grpc import OperatorServicer, add_OperatorServicer_to_server
from control_plane.contracts.wire.convert import to_wire
from control_plane.contracts.wire.status import HINT_KEY, PARAM_KEY, REASON_KEY
from control_plane.contracts.worker import Load, ModelInfo, WorkerInfo, WorkerState
from control_plane.fleet.timeline import join

KEY = "op-inferdeck-" + "k" * 32
NOW = 1_700_000_000.0


def worker(name: str, **changes: Any) -> WorkerView:
    model = ModelInfo("smollm2-135m", "builtin:smollm2-135m", "a" * 64, "bfloat16", 2048, 49152, 32, 182, 1 << 29)
    view = WorkerView(
        id=name,
        pool="smollm2",
        phase=WorkerPhase.READY,
        address="127.0.0.1:40001",
        pid=101,
        engine_pid=102,
        phase_since_unix=NOW - 100,
        heartbeat_unix=NOW - 0.2,
        info=WorkerInfo(name, "i-1", 101, 102, NOW - 310, "vllm", "0.32.0", model, WorkerState.READY, "", "cpu", 3.4),
        load=Load(
            "i-1",
            NOW - 0.2,
            WorkerState.READY,
            running=3,
            waiting=1,
            total_blocks=182,
            used_blocks=111,
            kv_usage=0.61,
            tokens_per_s=41.5,
            prompt_tokens_per_s=200,
            generated_tokens=1234,
            prompt_tokens=1000,
            cached_tokens=740,
            steps=500,
            finished=17,
            rss_bytes=1 << 30,
            cpu_s=34,
        ),
        in_flight=4,
        latency=Latency(60, 12, 0.21, 1.9, 400, 0.046, 0.09),
        log_path=f"/home/someone/.inferdeck/logs/worker-{name}.log",
    )
    return replace(view, **changes)


def request(name: str, **changes: Any) -> RequestView:
    view = RequestView(
        id=name,
        gateway_id="g1",
        model="smollm2-135m",
        phase=RequestPhase.DECODING,
        worker_id="smollm2-1",
        key_id="default",
        stream=True,
        arrival_unix=NOW - 7,
        prompt_tokens=388,
        output_tokens=143,
        max_tokens=256,
        ttft_s=0.62,
        itl_p50_s=0.047,
        api="chat",
        stages=(
            Stage("auth", 0.0, 0.0002),
            Stage("tokenise", 0.0002, 0.0011),
            Stage("queue", 0.0013, 0.412),
            Stage("prefill", 0.413, 0.208),
            Stage("decode", 0.62, 6.38),
        ),
    )
    return replace(view, **changes)


def snapshot() -> Snapshot:
    return Snapshot(
        revision=7,
        taken_unix=NOW,
        control_plane_id="cp-1",
        version="0.1.0",
        pools=(Pool("smollm2", "smollm2-135m", "vllm", 2, 2, 2, "builtin:smollm2-135m"),),
        workers=(worker("smollm2-1"), worker("smollm2-2", in_flight=0, latency=None)),
        gateways=(
            GatewayView(
                "g1",
                99,
                "http://127.0.0.1:8080",
                True,
                NOW - 60,
                NOW - 0.1,
                4,
                0,
                21,
                {200: 20, 401: 1},
                Latency(60, 12, 0.21, 1.9, 400, 0.046, 0.09),
                83.0,
                1 << 27,
                4.2,
            ),
        ),
        requests=(
            request("req-1"),
            request(
                "req-2", phase=RequestPhase.QUEUED, worker_id="", ttft_s=0, itl_p50_s=0, stages=(), output_tokens=0
            ),
            request("req-0", phase=RequestPhase.FINISHED, reason="stop", duration_s=3.0),
        ),
        models=(ModelView("smollm2-135m", "smollm2", "builtin:smollm2-135m", 2048, 2, "vllm"),),
        events=(
            Event(1, NOW - 90, "worker_ready", "worker/smollm2-1", "loaded in 3.4 s"),
            Event(2, NOW - 30, "worker_lost", "worker/smollm2-2", "no heartbeat for 3 s", "warning"),
        ),
    )


@dataclass
class FakeOperator(OperatorServicer):
    """State that the calls change, and a record of the calls that changed it."""

    state: Snapshot = field(default_factory=snapshot)
    calls: list[str] = field(default_factory=list)
    drain_steps: tuple[int, ...] = (4, 2, 0)
    drain_times_out: bool = False
    while_draining: Callable[[], object] = lambda: None
    log: bytes = b"one\ntwo\n"
    steps: tuple[EngineStep, ...] = ()
    trace: TraceState = field(default_factory=lambda: TraceState(TraceMode.FULL))
    failures: list[worker_pb2.Failure] = field(default_factory=list)
    router: RouterState | None = None
    blocks: BlockSnapshot = field(default_factory=lambda: BlockSnapshot(0))
    decisions: dict[str, tuple[DecisionView, ...]] = field(default_factory=dict)
    holds: dict[str, tuple[Hold, ...]] = field(default_factory=dict)
    no_decisions: InferDeckError | None = None
    busy: InferDeckError | None = None
    silent: tuple[str, ...] = ()
    replayed: DecisionReplay | None = None
    changed: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def update(self, **changes: Any) -> None:
        self.state = replace(self.state, revision=self.state.revision + 1, **changes)
        self.changed.set()

    def GetSnapshot(self, message: pb.GetSnapshotRequest, context: grpc.ServicerContext) -> pb.Snapshot:  # noqa: N802
        self._authorize(context)
        return self._view(message.finished_requests)

    def Watch(self, message: pb.WatchRequest, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self._authorize(context)
        while context.is_active():
            self.changed.clear()
            yield self._view(message.finished_requests)
            while context.is_active() and not self.changed.wait(0.05) and not self.ended.is_set():
                pass
            if self.ended.is_set():
                return

    def GetRouter(self, message: pb.RouterRef, context: grpc.ServicerContext) -> routing_pb2.RouterState:  # noqa: N802
        self._authorize(context)
        if self.router is None:
            context.abort(grpc.StatusCode.UNAVAILABLE, "it does not answer")
        return to_wire(self.router, routing_pb2.RouterState)

    def Cordon(self, message: pb.WorkerRef, context: grpc.ServicerContext) -> pb.ActionResult:  # noqa: N802
        return self._mark(message, context, cordoned=True)

    def Uncordon(self, message: pb.WorkerRef, context: grpc.ServicerContext) -> pb.ActionResult:  # noqa: N802
        return self._mark(message, context, cordoned=False)

    def Drain(self, message: pb.DrainWorkerRequest, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self._authorize(context)
        target = self._worker(message.worker_id, context)
        names = ("req-1", "req-2")
        if message.dry_run:
            plan = DrainProgress(target.id, target.in_flight, names, message=f"would drain worker/{target.id}")
            yield to_wire(plan, pb.DrainProgress)
            return
        self.calls.append(f"drain {target.id} {message.timeout_s:g}")
        for left in self.drain_steps:
            done = left == 0
            yield to_wire(DrainProgress(target.id, left, names[:left], done), pb.DrainProgress)
            self.while_draining()
        if self.drain_times_out:
            yield to_wire(DrainProgress(target.id, self.drain_steps[-1], names, timed_out=True), pb.DrainProgress)

    def Scale(self, message: pb.ScaleRequest, context: grpc.ServicerContext) -> pb.ActionResult:  # noqa: N802
        self._authorize(context)
        pool = next((p for p in self.state.pools if p.name == message.pool), None)
        if pool is None:
            _fail(context, NotFound(f"no pool named {message.pool}"))
        changed = pool.desired != message.replicas
        text = f"pool/{pool.name} scaled from {pool.desired} to {message.replicas}" if changed else "nothing to change"
        if changed and not message.dry_run:
            self.calls.append(f"scale {message.pool} {message.replicas}")
            self.update(pools=(replace(pool, desired=message.replicas),))
        return to_wire(ActionResult(changed, text, ("smollm2-2",), 1), pb.ActionResult)

    def CancelRequest(self, message: pb.CancelRequestRequest, context: grpc.ServicerContext) -> pb.ActionResult:  # noqa: N802
        self._authorize(context)
        found = next((r for r in self.state.requests if r.id == message.request_id), None)
        if found is None:
            _fail(context, NotFound(f"no request named {message.request_id}"))
        if not found.phase.active:
            return to_wire(ActionResult(False, f"request/{found.id} has ended already"), pb.ActionResult)
        if not message.dry_run:
            self.calls.append(f"cancel {found.id}")
        return to_wire(ActionResult(True, f"request/{found.id} cancelled", (found.id,), 1), pb.ActionResult)

    def GetTimeline(self, message: pb.TimelineRequest, context: grpc.ServicerContext) -> pb.Timeline:  # noqa: N802
        self._authorize(context)
        found = next((r for r in self.state.requests if r.id == message.request_id), None)
        if found is None:
            _fail(context, NotFound(f"no request named {message.request_id}"))
        return to_wire(join(found, self.steps), pb.Timeline)

    def Explain(  # noqa: N802
        self, message: decision_pb2.ExplainRequest, context: grpc.ServicerContext
    ) -> decision_pb2.Explanation:
        self._authorize(context)
        if self.no_decisions is not None:
            _fail(context, self.no_decisions)
        found = self.decisions.get(message.request_id, ())
        told = Explanation(message.request_id, found, self.silent, self.holds.get(message.request_id, ()))
        return to_wire(told, decision_pb2.Explanation)

    def ReplayDecisions(  # noqa: N802
        self, message: decision_pb2.ReplayDecisionsRequest, context: grpc.ServicerContext
    ) -> decision_pb2.DecisionReplay:
        self._authorize(context)
        weights = dict(sorted(message.by.weights.items()))
        by = f"{weights} {message.by.picker or 'max'} {message.by.temperature:g}"
        self.calls.append(f"replay {message.profile} {by} {message.last}")
        return to_wire(self.replayed, decision_pb2.DecisionReplay)

    def WatchSteps(self, message: pb.WorkerStepsRequest, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """A frame a step, then one that says how the trace stands; the worker ends after it."""
        self._authorize(context)
        self._worker(message.worker_id, context)
        for step in self.steps:
            if step.step >= message.from_step:
                yield to_wire(StepFrame((step,), replace(self.trace, dropped=step.dropped)), worker_pb2.StepFrame)
        yield to_wire(StepFrame(trace=self.trace), worker_pb2.StepFrame)

    def SetTrace(  # noqa: N802
        self, message: pb.WorkerTraceRequest, context: grpc.ServicerContext
    ) -> worker_pb2.TraceState:
        self._authorize(context)
        target = self._worker(message.worker_id, context)
        if (mode := TraceMode(message.mode).value) and not message.dry_run:
            self.calls.append(f"trace {target.id} {message.mode} {message.every}")
            self.trace = replace(self.trace, mode=TraceMode(mode), every=max(message.every, 1))
        return to_wire(self.trace, worker_pb2.TraceState)

    def Inject(  # noqa: N802
        self, message: pb.WorkerInjectRequest, context: grpc.ServicerContext
    ) -> worker_pb2.InjectResponse:
        self._authorize(context)
        target = self._worker(message.worker_id, context)
        if message.heal and not message.dry_run:
            self.calls.append(f"heal {target.id}")
            self.failures.clear()
        if message.HasField("failure") and not message.dry_run:
            self.calls.append(f"inject {target.id} {message.failure.kind}")
            self.failures.append(message.failure)
        return worker_pb2.InjectResponse(failures=self.failures)

    def Sleep(self, message: pb.WorkerSleepRequest, context: grpc.ServicerContext) -> pb.ActionResult:  # noqa: N802
        self._authorize(context)
        target = self._worker(message.worker_id, context)
        if self.busy is not None:
            _fail(context, self.busy)
        words = f"worker/{target.id} asleep at level {message.level}"
        if target.phase is WorkerPhase.ASLEEP:
            return to_wire(ActionResult(False, f"worker/{target.id} is asleep already"), pb.ActionResult)
        if message.dry_run:
            words = f"would put worker/{target.id} to sleep at level {message.level}"
        else:
            self.calls.append(f"sleep {target.id} {message.level}")
        return to_wire(ActionResult(True, words, (target.id,), target.in_flight), pb.ActionResult)

    def Wake(self, message: pb.WorkerRef, context: grpc.ServicerContext) -> pb.ActionResult:  # noqa: N802
        self._authorize(context)
        target = self._worker(message.worker_id, context)
        if not message.dry_run:
            self.calls.append(f"wake {target.id}")
        words = f"would wake worker/{target.id}" if message.dry_run else f"worker/{target.id} awake"
        return to_wire(ActionResult(True, words, (target.id,)), pb.ActionResult)

    def GetBlocks(self, message: pb.WorkerRef, context: grpc.ServicerContext) -> worker_pb2.BlockSnapshot:  # noqa: N802
        self._authorize(context)
        self._worker(message.worker_id, context)
        return to_wire(self.blocks, worker_pb2.BlockSnapshot)

    def Logs(self, message: pb.LogsRequest, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self._authorize(context)
        if message.target not in ("control-plane", "g1", *(w.id for w in self.state.workers)):
            _fail(context, NotFound(f"no log named {message.target}"))
        data = b"".join(self.log.splitlines(keepends=True)[-(message.tail_lines or 200) :])
        for start in range(0, len(data), 7):
            yield pb.LogChunk(data=data[start : start + 7])

    def Events(self, message: pb.EventsRequest, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self._authorize(context)
        for event in self.state.events:
            if event.seq > message.since:
                yield to_wire(event, pb.Event)

    def Shutdown(self, message: pb.ShutdownRequest, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self._authorize(context)
        self.calls.append(f"shutdown {message.grace_s:g}")
        yield to_wire(ShutdownProgress("gateways stopped"), pb.ShutdownProgress)
        yield to_wire(ShutdownProgress("all stopped", True), pb.ShutdownProgress)
        self.ended.set()

    def _view(self, finished: bool) -> pb.Snapshot:
        state = self.state
        if not finished:
            state = replace(state, requests=tuple(r for r in state.requests if r.phase.active))
        return to_wire(state, pb.Snapshot)

    def _mark(self, message: pb.WorkerRef, context: grpc.ServicerContext, *, cordoned: bool) -> pb.ActionResult:
        self._authorize(context)
        target = self._worker(message.worker_id, context)
        word = "cordoned" if cordoned else "uncordoned"
        changed = target.cordoned is not cordoned
        if changed and not message.dry_run:
            self.calls.append(f"{word} {target.id}")
            self.update(workers=tuple(replace(w, cordoned=cordoned) if w is target else w for w in self.state.workers))
        text = f"worker/{target.id} {word}" if changed else f"worker/{target.id} already {word}"
        return to_wire(ActionResult(changed, text, (), target.in_flight), pb.ActionResult)

    def _worker(self, name: str, context: grpc.ServicerContext) -> WorkerView:
        found = next((w for w in self.state.workers if w.id == name), None)
        if found is None:
            _fail(context, NotFound(f"no worker named {name}"))
        return found

    def _authorize(self, context: grpc.ServicerContext) -> None:
        if dict(context.invocation_metadata()).get("authorization") != f"Bearer {KEY}":
            _fail(context, Unauthenticated("the operator key is wrong"))


def _fail(context: grpc.ServicerContext, error: InferDeckError) -> NoReturn:
    context.set_trailing_metadata(
        ((REASON_KEY, str(error.reason)), (PARAM_KEY, error.param or ""), (HINT_KEY, error.hint))
    )
    context.abort(grpc.StatusCode[error.status.grpc], error.message)
    raise AssertionError


def serve(operator: FakeOperator) -> tuple[grpc.Server, str]:
    """Start it on a free port of the loopback."""
    server = grpc.server(ThreadPoolExecutor(8))
    add: Any = add_OperatorServicer_to_server
    add(operator, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, f"127.0.0.1:{port}"
