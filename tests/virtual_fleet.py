"""Routers over simulated workers, in virtual time: real dispatchers, real schedulers of the simulator, no clock.

What a router hears of a worker comes as late as it would: load samples every half second, KV events with a lag. So
routing can be tried on hours of traffic in seconds, and a run depends on its seed alone.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from control_plane.contracts.admission import AdmissionRules
from control_plane.contracts.call import RoutedCall
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.fleet import Endpoint, EndpointSet, ModelView, WorkerPhase
from control_plane.contracts.kv_events import KvFrame, KvSnapshot
from control_plane.contracts.worker import (
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
from control_plane.router.requests import Request
from control_plane.router.scheduling.profile import PROFILES
from control_plane.router.targets import Target
from workers.engine.kv_journal import KvJournal
from workers.engine.sim.config import SchedulerConfig
from workers.engine.sim.request import SimRequest
from workers.engine.sim.scheduled import Scheduled
from workers.engine.sim.scheduler import SimScheduler
from workers.engine.sim.step_time import StepTimer

MODEL = "virtual"
SAMPLE_S = 0.5
EVENT_LAG_S = 0.006
START = 1000.0


class SteadyTimer:
    """Steps that take so long for each prefilled token, and so long at least; for tests that need no real figures."""

    def __init__(self, step_s: float = 0.02, prefill_tokens_per_s: float = 20_000.0) -> None:
        self._step_s = step_s
        self._rate = prefill_tokens_per_s

    def seconds(self, batch: Sequence[tuple[object, ...]], step: int) -> float:
        return self._step_s + sum(int(str(row[2])) - 1 for row in batch) / self._rate

    def decodes(self, requests: int, context: int) -> float | None:
        return None


@dataclass(slots=True, eq=False)
class Told:
    """What became of one call, by its last attempt; times are of the virtual clock. Also its sink."""

    call: RoutedCall
    answer: Sequence[int]
    fleet: VirtualFleet
    then: Callable[[Told], None] | None = None
    request: Request | None = None
    worker_id: str = ""
    predicted: int | None = None
    first: float = 0.0
    last: float = 0.0
    done: Done | None = None
    error: InferDeckError | None = None

    @property
    def ttft_s(self) -> float:
        return self.first - self.call.arrival_mono

    @property
    def prompt_tokens(self) -> int:
        return len(self.call.prompt_token_ids)

    @property
    def cached(self) -> int:
        return self.done.cached_tokens if self.done is not None else 0

    def delta(self, delta: Delta) -> None:
        if not self.first:
            self.first = self.fleet.now
        if delta.done is not None:
            self.done, self.last = delta.done, self.fleet.now
            self.fleet.ended(self)

    def failed(self, error: InferDeckError) -> None:
        self.error, self.last = error, self.fleet.now
        self.fleet.ended(self)


class VirtualLink:
    def __init__(self, router: VirtualRouter, worker: VirtualWorker, target: Target) -> None:
        self.router = router
        self.worker = worker
        self.target = target
        self.numbers: dict[str, int] = {}

    def generate(self, number: int, call: RoutedCall) -> None:
        self.numbers[call.request_id] = number
        self.worker.add(self, call)

    def abort(self, number: int) -> None:
        for request_id, known in tuple(self.numbers.items()):
            if known == number:
                del self.numbers[request_id]
                self.worker.abort(request_id)

    def close(self) -> None:
        self.worker.links.discard(self)
        for request_id in tuple(self.numbers):
            self.worker.abort(request_id)
        self.numbers.clear()


@dataclass(slots=True, eq=False)
class VirtualWorker:
    """``generation`` makes its instance id; ``muted``: its load samples and KV events do not get through."""

    fleet: VirtualFleet
    worker_id: str
    generation: int = 1
    muted: bool = False
    kv_usage: float | None = None
    journal: KvJournal = field(default_factory=KvJournal)
    links: set[VirtualLink] = field(default_factory=set)
    calls: dict[str, tuple[VirtualLink, RoutedCall]] = field(default_factory=dict)
    flying: Scheduled | None = None
    load: Load | None = None
    load_at: float = 0.0
    scheduler: SimScheduler = field(init=False)

    def __post_init__(self) -> None:
        self.scheduler = SimScheduler(self.fleet.config, self.journal)

    @property
    def instance_id(self) -> str:
        return f"{self.worker_id}-i{self.generation}"

    @property
    def held(self) -> int:
        return sum(self.scheduler.sizes())

    def endpoint(self) -> Endpoint:
        config = self.fleet.config
        model = ModelInfo(
            MODEL,
            max_context=config.max_model_len,
            block_size=config.block_size,
            total_blocks=config.total_blocks,
            max_num_seqs=config.max_num_seqs,
        )
        info = WorkerInfo(self.worker_id, self.instance_id, 1, model=model, kv_events=self.fleet.events)
        return Endpoint(
            self.worker_id,
            self.instance_id,
            self.worker_id,
            "pool",
            MODEL,
            WorkerPhase.READY,
            info=info,
            load=self.load,
            load_age_s=self.fleet.now - self.load_at,
        )

    def sample(self) -> None:
        if self.muted:
            return
        running, waiting = self.scheduler.sizes()
        used = self.scheduler.counts().used
        usage = used / self.fleet.config.total_blocks if self.kv_usage is None else self.kv_usage
        self.load_at = self.fleet.now
        self.load = Load(
            self.instance_id,
            self.fleet.now,
            WorkerState.READY,
            running=running,
            waiting=waiting,
            total_blocks=self.fleet.config.total_blocks,
            used_blocks=used,
            kv_usage=usage,
        )

    def restart(self) -> None:
        """As ``kill -9`` and the next process at the same address: nothing is cached, and what ran is lost."""
        self.generation += 1
        self.flying, self.load = None, None
        self.journal = KvJournal()
        self.scheduler = SimScheduler(self.fleet.config, self.journal)
        self.calls.clear()

    def add(self, link: VirtualLink, call: RoutedCall) -> None:
        self.calls[call.request_id] = link, call
        request = SimRequest(
            call.request_id,
            call.prompt_token_ids,
            call.sampling.max_tokens - call.resumed,
            priority=call.priority,
            arrival=self.fleet.now,
            cache_salt=call.cache_salt,
        )
        self.scheduler.add(request)
        self.fleet.at(self.fleet.now, self.step)

    def abort(self, request_id: str) -> None:
        if self.calls.pop(request_id, None) is not None:
            self.scheduler.abort(request_id)

    def step(self) -> None:
        if self.flying is not None or not self.scheduler.has_work():
            return
        scheduled = self.scheduler.schedule(self.fleet.now)
        if not scheduled.batch:
            self.scheduler.complete(scheduled, {})
            return
        self.flying = scheduled
        took = self.fleet.timer.seconds(scheduled.batch, scheduled.step)
        scheduler = self.scheduler
        self.fleet.at(self.fleet.now + took, lambda: self._stepped(scheduler, scheduled))

    def _stepped(self, scheduler: SimScheduler, scheduled: Scheduled) -> None:
        if scheduler is not self.scheduler:
            return  # of a process that is no more
        self.flying = None
        due = [
            (state.request_id, self.calls[state.request_id][1].resumed + state.output_tokens, state.cached_tokens)
            for state in scheduled.states
            if state.request_id in self.calls
        ]
        tokens = {name: (self.fleet.answers[name][said],) for name, said, _ in due}
        cached_of = {name: cached for name, _, cached in due}
        ended = {end.request_id: end.output_tokens for end in scheduler.complete(scheduled, tokens)}
        self._tell_events()
        for name, _, _ in due:
            self._tell(name, tokens[name], ended.get(name), cached_of[name])
        self.step()

    def _tell(self, name: str, tokens: Sequence[int], output: int | None, cached: int) -> None:
        entry = self.calls.get(name)
        if entry is None:
            return
        link, call = entry
        number = link.numbers[name]
        request = link.target.calls.get(number)
        if output is None:
            if request is not None:
                request.token(Delta(number, tuple(tokens), "x"), self.fleet.now)
            return
        del self.calls[name], link.numbers[name]
        if request is not None:
            output += call.resumed
            done = Done(len(call.prompt_token_ids) - call.resumed, cached, output, Stages())
            finish = Finish(FinishReason.LENGTH, output)
            request.take(Delta(number, tuple(tokens), "x", finish=finish, done=done), self.fleet.now)

    def _tell_events(self) -> None:
        batch = self.journal.batch()
        if batch is None or not self.fleet.events or self.muted:
            return
        frame = KvFrame(self.instance_id, batches=(batch,))
        for link in self.links:
            self.fleet.at(self.fleet.now + EVENT_LAG_S, lambda link=link: link.target.mirror.apply(frame))  # type: ignore[misc]


class VirtualRouter:
    def __init__(self, fleet: VirtualFleet, name: str, profile: str, seed: int) -> None:
        self.fleet = fleet
        self.name = name
        self.waiting: list[Told] = []
        self.dispatcher = Dispatcher(
            ledger=Ledger(name),
            profile=PROFILES[profile](Random(seed)),
            retries=2,
            queue_timeout_s=600.0,
            clock=lambda: fleet.now,
            arm=lambda at: fleet.at(max(at, fleet.now), self.dispatcher.tick),
            open_link=self._open,
            changed=lambda: None,
        )
        self.dispatcher.admit_by(AdmissionRules(queue_limit=100_000, queue_share=1.0))

    def _open(self, target: Target) -> VirtualLink:
        worker = self.fleet.workers[target.worker_id]
        link = VirtualLink(self, worker, target)
        worker.links.add(link)
        self.fleet.at(self.fleet.now, lambda: self._up(link))
        return link

    def _up(self, link: VirtualLink) -> None:
        self.dispatcher.link_up(link.target)
        if self.fleet.events:
            link.worker.journal.batch()
            snapshot = KvSnapshot(link.worker.journal.seq, tuple(link.worker.journal.hashes))
            link.target.mirror.apply(KvFrame(link.worker.instance_id, snapshot))

    def submit(self, told: Told) -> None:
        told.request = self.dispatcher.submit(told.call, told)

    def shelf(self, worker_id: str) -> int:
        """How many blocks the index holds of it."""
        return len(self.dispatcher.targets.by_worker(worker_id).shelf)


class VirtualFleet:
    """``answers``: what each request's tokens will be, by id. ``trace``: how many calls each worker held, after each
    change."""

    def __init__(
        self,
        workers: int,
        config: SchedulerConfig,
        timer: StepTimer,
        *,
        profile: str = "prefix_aware",
        routers: int = 1,
        events: bool = True,
        seed: int = 1,
    ) -> None:
        self.now = START
        self.config = config
        self.timer = timer
        self.events = events
        self.answers: dict[str, Sequence[int]] = {}
        self.all: list[Told] = []
        self.trace: list[tuple[float, tuple[int, ...]]] = []
        self._open = 0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._ids = itertools.count(1)
        self._arrivals = 0
        self.workers = {f"w{number}": VirtualWorker(self, f"w{number}") for number in range(1, workers + 1)}
        self.routers = [VirtualRouter(self, f"g{number}", profile, seed + number) for number in range(1, routers + 1)]
        self.publish()
        self._sample()
        self._until(self.now)

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._ids), what))

    def publish(self) -> None:
        """Every router hears what the fleet is now."""
        endpoints = EndpointSet(1, tuple(w.endpoint() for w in self.workers.values()), (ModelView(MODEL, "pool"),))
        for router in self.routers:
            router.dispatcher.apply(endpoints)

    def ask(
        self,
        prompt: Sequence[int],
        answer: Sequence[int],
        *,
        at: float | None = None,
        router: int = 0,
        session: str = "",
        salt: str = "",
        then: Callable[[Told], None] | None = None,
    ) -> Told:
        """A call that arrives ``at`` seconds after the start (None: now)."""
        arrival = self.now if at is None else START + at
        name = f"r{len(self.all) + 1}"
        call = RoutedCall(
            name,
            MODEL,
            prompt,
            Sampling(max_tokens=len(answer)),
            stream=True,
            arrival_unix=arrival,
            arrival_mono=arrival,
            cache_salt=salt,
            session=session,
        )
        told = Told(call, answer, self, then)
        self.answers[name] = answer
        self.all.append(told)
        self._open += 1
        self.at(arrival, lambda: self._arrive(router, told))
        return told

    def run(self) -> list[Told]:
        """Until every call has ended."""
        while self._open:
            self._next()
        return self.all

    def rest(self, seconds: float) -> None:
        """Let so much time pass."""
        self._until(self.now + seconds)

    def ended(self, told: Told) -> None:
        self._open -= 1
        if told.request is not None:
            told.worker_id, told.predicted = told.request.worker_id, told.request.predicted_tokens
        self._note()
        if told.then is not None:
            told.then(told)

    def longest_above(self, factor: float, *, begin: float = 0.0, end: float = float("inf")) -> float:
        """For how many seconds on end some worker held more than ``factor`` times the mean; between ``begin`` and
        ``end``, seconds after the start."""
        longest = 0.0
        since: dict[int, float] = {}
        for when, held in self.trace:
            if not begin <= when - START <= end:
                continue
            mean = sum(held) / len(held)
            for number, count in enumerate(held):
                if count > factor * mean:
                    longest = max(longest, when - since.setdefault(number, when))
                else:
                    longest = max(longest, when - since.pop(number, when))
        return longest

    def _arrive(self, router: int, told: Told) -> None:
        self.routers[router].submit(told)
        self._note()

    def _note(self) -> None:
        self.trace.append((self.now, tuple(len(worker.calls) for worker in self.workers.values())))

    def _sample(self) -> None:
        for worker in self.workers.values():
            worker.sample()
        self.publish()
        self.at(self.now + SAMPLE_S, self._sample)

    def _next(self) -> None:
        when, _, what = heapq.heappop(self._due)
        self.now = max(self.now, when)
        what()

    def _until(self, end: float) -> None:
        while self._due and self._due[0][0] <= end:
            self._next()
        self.now = max(self.now, end)


def config(total_blocks: int, *, block_size: int = 16, max_context: int = 8192, sequences: int = 64) -> SchedulerConfig:
    return SchedulerConfig(
        block_size=block_size,
        total_blocks=total_blocks,
        max_num_seqs=sequences,
        max_num_batched_tokens=2048,
        max_model_len=min(max_context, total_blocks * block_size),
    )
