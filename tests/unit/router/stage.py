"""A stage for the dispatcher: a clock that is moved by hand, workers that answer when told to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from control_plane.contracts.admission import DEFAULT_SERVICE, AdmissionRules, Service
from control_plane.contracts.call import RoutedCall
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.fleet import Endpoint, EndpointSet, ModelView, RequestView, WorkerPhase
from control_plane.contracts.worker import (
    CallError,
    Delta,
    Done,
    Finish,
    FinishReason,
    Load,
    ModelInfo,
    Sampling,
    Stages,
    WorkerInfo,
    WorkerState,
)
from control_plane.router.dispatcher import Dispatcher
from control_plane.router.ledger import Ledger
from control_plane.router.scheduling.profile import PROFILES
from control_plane.router.targets import Target

MODEL = "tiny"
BLOCK = 16
NO_STAGES = Stages()


class RecordingSink:
    """What a gateway would have heard; checks that nothing follows the end."""

    def __init__(self) -> None:
        self.deltas: list[Delta] = []
        self.error: InferDeckError | None = None
        self.done = False
        self.on_end: Callable[[], None] = lambda: None

    @property
    def over(self) -> bool:
        return self.done or self.error is not None

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.deltas)

    def delta(self, delta: Delta) -> None:
        assert not self.over, "something came after the end"
        assert delta.error is None
        self.deltas.append(delta)
        self.done = delta.done is not None

    def failed(self, error: InferDeckError) -> None:
        assert not self.over, "something came after the end"
        self.error = error
        self.on_end()


class StageLink:
    """The stream to a staged worker. ``sent`` is every call that reached it, ``running`` what it holds now."""

    def __init__(self, stage: Stage, target: Target) -> None:
        self._stage = stage
        self.target = target
        self.sent: list[str] = []
        self.aborted: list[str] = []
        self.running: dict[int, RoutedCall] = {}
        self.closed = False
        self.unsendable: set[str] = set()

    def generate(self, number: int, call: RoutedCall) -> None:
        if call.request_id in self.unsendable:
            raise ValueError("not a message")
        assert not self.closed
        assert self.target.candidate.connected
        assert number not in self.running
        self.sent.append(call.request_id)
        self.running[number] = call

    def abort(self, number: int) -> None:
        if self.target.candidate.connected:
            self.aborted.append(self.running.pop(number).request_id)

    def close(self) -> None:
        self.closed = True
        self.running.clear()

    def up(self) -> None:
        self._stage.dispatcher.link_up(self.target)

    def down(self, cause: str = "gone") -> float:
        self.running.clear()
        return self._stage.dispatcher.link_down(self.target, cause)

    def _number(self, request_id: str) -> int:
        return next(number for number, call in self.running.items() if call.request_id == request_id)

    def _give(self, number: int, delta: Delta) -> None:
        request = self.target.calls.get(number)
        if request is not None:
            request.take(delta, self._stage.now)

    def token(self, request_id: str, text: str = "x", choice: int = 0, tokens: int = 1) -> None:
        number = self._number(request_id)
        delta = Delta(number, [7] * tokens, text, choice)
        request = self.target.calls.get(number)
        if tokens == 1 and not choice and request is not None:
            request.token(delta, self._stage.now)
        else:
            self._give(number, delta)

    def finish(self, request_id: str, output_tokens: int = 1, stages: Stages = NO_STAGES, cached: int = 0) -> None:
        """The last token and the end, as one delta."""
        number = self._number(request_id)
        call = self.running.pop(number)
        done = Done(len(call.prompt_token_ids) - call.resumed, cached, output_tokens, stages)
        self._give(number, Delta(number, [7], "x", finish=Finish(FinishReason.STOP, output_tokens), done=done))

    def fail(self, request_id: str, code: str, message: str = "no", param: str = "") -> None:
        number = self._number(request_id)
        del self.running[number]
        self._give(number, Delta(number, error=CallError(code, message, param)))

    def aborted_outside(self, request_id: str) -> None:
        """Somebody else told the worker to abort it."""
        number = self._number(request_id)
        del self.running[number]
        self._give(number, Delta(number, finish=Finish(FinishReason.ABORT, 1), done=Done(1, 0, 1)))


@dataclass
class StageWorker:
    """What the fleet says of one worker."""

    worker_id: str
    instance_id: str
    phase: WorkerPhase = WorkerPhase.READY
    cordoned: bool = False
    model: str = MODEL
    max_num_seqs: int = 0
    max_context: int = 0
    block_size: int = 0
    total_blocks: int = 0
    load: Load | None = None
    load_age_s: float = 0.0

    def endpoint(self) -> Endpoint:
        info = WorkerInfo(
            self.worker_id,
            self.instance_id,
            pid=1,
            state=WorkerState.READY,
            model=ModelInfo(
                self.model,
                max_context=self.max_context,
                max_num_seqs=self.max_num_seqs,
                block_size=self.block_size or (BLOCK if self.total_blocks else 0),
                total_blocks=self.total_blocks,
            ),
        )
        return Endpoint(
            self.worker_id,
            self.instance_id,
            address=f"{self.worker_id}:1",
            pool="pool",
            model=self.model,
            phase=self.phase,
            cordoned=self.cordoned,
            info=info,
            load=self.load,
            load_age_s=self.load_age_s,
        )


@dataclass
class Stage:
    """Everything around one dispatcher. Links come up by themselves unless ``connect`` is False."""

    profile: str = "least_load"
    retries: int = 2
    queue_timeout_s: float = 30.0
    queue_limit: int = 1000
    queue_share: float = 1.0
    max_context: int = 0
    seed: int = 1
    connect: bool = True
    now: float = 1000.0
    tick_at: float | None = None
    ended: int = 0
    workers: dict[str, StageWorker] = field(default_factory=dict)
    links: list[StageLink] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger = Ledger("g1")
        self._ids = itertools.count(1)
        self.dispatcher = Dispatcher(
            ledger=self.ledger,
            profile=PROFILES[self.profile](Random(self.seed)),
            retries=self.retries,
            queue_timeout_s=self.queue_timeout_s,
            clock=lambda: self.now,
            arm=self._arm,
            open_link=self._open,
            changed=self._changed,
        )
        self.dispatcher.admit_by(AdmissionRules(queue_limit=self.queue_limit, queue_share=self.queue_share))

    def _arm(self, at: float) -> None:
        self.tick_at = at

    def _changed(self) -> None:
        self.ended += 1

    def _open(self, target: Target) -> StageLink:
        link = StageLink(self, target)
        self.links.append(link)
        return link

    def publish(self, *workers: StageWorker) -> None:
        """The fleet's set is now these workers (or, without any, what it was)."""
        if workers:
            self.workers = {worker.worker_id: worker for worker in workers}
        models = (ModelView(MODEL, "pool", max_context=self.max_context), ModelView("other", "pool2"))
        opened = len(self.links)
        self.dispatcher.apply(EndpointSet(1, tuple(w.endpoint() for w in self.workers.values()), models))
        if self.connect:
            for link in self.links[opened:]:
                link.up()

    def start(self, *names: str, **more: object) -> None:
        self.publish(*(StageWorker(name, f"{name}-i1", **more) for name in names))  # type: ignore[arg-type]

    def sample(self, worker_id: str, kv_usage: float = 0.0, *, running: int = 0, waiting: int = 0) -> None:
        """The fleet tells of a load that was sampled now, a moment later."""
        worker = self.workers[worker_id]
        self.now += 0.001
        worker.load = Load(
            worker.instance_id, self.now, WorkerState.READY, running=running, waiting=waiting, kv_usage=kv_usage
        )
        self.publish()

    def link(self, worker_id: str) -> StageLink:
        """The open link to the worker."""
        return next(link for link in self.links if link.target.worker_id == worker_id and not link.closed)

    def advance(self, seconds: float) -> None:
        """Move the clock, with every tick that was asked for on the way."""
        end = self.now + seconds
        while self.tick_at is not None and self.tick_at <= end:
            self.now, self.tick_at = max(self.now, self.tick_at), None
            self.dispatcher.tick()
        self.now = end

    def call(
        self,
        request_id: str = "",
        *,
        model: str = MODEL,
        prompt: int | Sequence[int] = 3,
        max_tokens: int = 8,
        n: int = 1,
        stream: bool = True,
        api: str = "chat",
        salt: str = "",
        session: str = "",
        service: Service = DEFAULT_SERVICE,
        priority: int = 0,
        flow: str = "",
        **sampling: Any,
    ) -> RoutedCall:
        return RoutedCall(
            request_id=request_id or f"r{next(self._ids)}",
            model=model,
            prompt_token_ids=[1] * prompt if isinstance(prompt, int) else prompt,
            sampling=Sampling(max_tokens=max_tokens, n=n, **sampling),
            stream=stream,
            arrival_unix=self.now,
            arrival_mono=self.now,
            key_id="k1",
            api=api,
            cache_salt=salt,
            session=session,
            service=service,
            priority=priority,
            flow=flow,
        )

    def submit(self, request_id: str = "", **more: object) -> tuple[object, RecordingSink]:
        sink = RecordingSink()
        return self.dispatcher.submit(self.call(request_id, **more), sink), sink  # type: ignore[arg-type]

    def where(self, request_id: str) -> str:
        """The worker that holds the request, "" if none does."""
        request = self.ledger.find(request_id)
        return request.worker_id if request is not None else ""

    def check(self) -> None:
        """What the router counts equals what the workers hold, and is never negative."""
        for link in self.links:
            candidate = link.target.candidate
            held = list(link.target.calls.values())
            assert candidate.requests == len(held) >= 0
            assert candidate.sequences == sum(request.choices for request in held)
            assert candidate.tokens >= 0
            assert abs(candidate.tokens - sum(request.charge for request in held)) < 1e-6
            if not link.closed:
                assert {request.call.request_id for request in held} == {c.request_id for c in link.running.values()}


def staged(*names: str, **more: object) -> Stage:
    """A stage with these workers; ``more`` is what the fleet says of each of them."""
    stage = Stage()
    stage.start(*names, **more)
    return stage


def ended(stage: Stage) -> dict[str, RequestView]:
    """What operators hear of since they were last told, by request."""
    return {view.id: view for view in stage.ledger.take(stage.now).ended}
