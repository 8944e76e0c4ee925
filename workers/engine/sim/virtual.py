"""Simulated workers in virtual time: a trace of requests as fast as it can be worked out, on no clock at all.

Every worker is a scheduler and a step timer, as in the live engine; what happens in a run depends on the trace alone.
Pure: nothing here waits, reads a clock or has I/O.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from control_plane.contracts.step import StepFinished
from workers.engine.sim.config import SchedulerConfig
from workers.engine.sim.leap import LeapingScheduler
from workers.engine.sim.native import i64, mypyc_attr
from workers.engine.sim.request import SimRequest
from workers.engine.sim.request_state import RequestState
from workers.engine.sim.scheduled import Scheduled
from workers.engine.sim.step_time import StepTimer


@mypyc_attr(acyclic=True)
class Outcome:
    """One request's times, in seconds of the trace; ``first`` and ``last`` are when its tokens came."""

    def __init__(self, request_id: str, worker: int, arrival: float) -> None:
        self.request_id = request_id
        self.worker = worker
        self.arrival = arrival
        self.first = 0.0
        self.last = 0.0
        self.output_tokens = 0
        self.preemptions = 0

    @property
    def ttft_s(self) -> float:
        return self.first - self.arrival

    @property
    def itl_s(self) -> float:
        """Mean time between tokens; 0 for one token."""
        return (self.last - self.first) / (self.output_tokens - 1) if self.output_tokens > 1 else 0.0


class Watch(Protocol):
    """Hears of every step: the worker's number, what was scheduled, when it began and how long it took."""

    def __call__(self, worker: int, scheduled: Scheduled, begun: float, seconds: float) -> None: ...


Route = Callable[[SimRequest, Sequence["VirtualWorker"]], int]
"""Which worker gets a request that arrives now: its place in the sequence."""


def least_loaded(request: SimRequest, workers: Sequence[VirtualWorker]) -> int:
    """The one with the fewest requests; the first among equals."""
    chosen, fewest = 0, len(workers[0].live)
    for index in range(1, len(workers)):
        requests = len(workers[index].live)
        if requests < fewest:
            chosen, fewest = index, requests
    return chosen


class VirtualWorker:
    """``due`` is when its running step ends, or when it was last idle. Before ``calm`` nothing of it changes that can
    be seen from outside, unless a request comes: its steps until then are put off. ``flying`` is the step that runs;
    with async_scheduling it is the first in ``queue``, which has those that are decided. ``lines`` are the times of
    decode steps by the number of requests (see ``_chord``), shared by workers of a kind."""

    def __init__(
        self, number: int, scheduler: LeapingScheduler, timer: StepTimer, lines: dict[int, tuple[float, float]]
    ) -> None:
        self.number = number
        self.scheduler = scheduler
        self.timer = timer
        self.lines = lines
        self.live: dict[str, Outcome] = {}
        self.due = 0.0
        self.calm = 0.0
        self.steps: i64 = 0
        self.flying: Scheduled | None = None
        self.queue: deque[Scheduled] = deque()

    def add(self, request: SimRequest, now: float) -> None:
        """``now`` is the time of its arrival, up to which it was run and settled. Raises like ``SimScheduler.add``."""
        self.scheduler.add(request)
        self.calm = 0.0
        self.live[request.request_id] = Outcome(request.request_id, self.number, now)
        if self.flying is None and self.due < now:
            self.due = now

    def run(
        self, until: float, done: Callable[[Outcome], None], watch: Watch | None = None, *, settle: bool = False
    ) -> None:
        """Make every step that ends by ``until``; one that begins before and ends later is left in flight.

        Those of a calm are put off unless ``settle``.
        """
        if until < self.calm and not settle:
            return
        if self.scheduler.config.async_scheduling:
            self._run_ahead(until, done, watch)
            return
        scheduler, live, seconds_of = self.scheduler, self.live, self.timer.seconds
        while True:
            flying = self.flying
            if flying is None:
                if self.due >= until or not scheduler.has_work():
                    return
                if watch is None and self._leap(until, done, settle):
                    if until < self.calm and not settle:
                        return
                    continue
                begun = self.due
                flying = scheduler.schedule(begun)
                for name in flying.preempted:
                    live[name].preemptions += 1
                if not flying.batch:
                    if not flying.preempted:
                        scheduler.complete(flying, {})
                        return
                    continue
                self.steps += 1
                seconds = seconds_of(flying.batch, flying.step)
                self.due = begun + seconds
                self.flying = flying
                if watch is not None:
                    watch(self.number, flying, begun, seconds)
            now = self.due
            if now > until:
                return
            self.flying = None
            tokens: dict[str, Sequence[int]] = {}
            for state in flying.states:
                name = state.request_id
                tokens[name] = _TOKEN
                outcome = live[name]
                if not outcome.first:
                    outcome.first = now
            self._finish(scheduler.complete(flying, tokens), done)

    def _run_ahead(self, until: float, done: Callable[[Outcome], None], watch: Watch | None) -> None:
        """The same where a step is decided while the one before it runs. Nothing is put off."""
        queue, live = self.queue, self.live
        while True:
            if self.flying is None:
                if self.due >= until:
                    return
                self._decide()
                if not queue:
                    return
                first = queue[0]
                if not first.batch:
                    self.scheduler.complete(queue.popleft(), {})
                    continue
                begun, self.flying = self.due, first
                seconds = self.timer.seconds(first.batch, first.step)
                self.due = begun + seconds
                self.steps += 1
                if watch is not None:
                    watch(self.number, first, begun, seconds)
            if self.due > until:
                return
            first, self.flying = queue.popleft(), None
            running = [state for state in first.states if state.limit >= 0]
            for state in running:
                outcome = live[state.request_id]
                outcome.first = outcome.first or self.due
            self.scheduler.complete(first, {state.request_id: _TOKEN for state in running})
            self._finish([state for state in running if state.limit < 0], done)

    def _decide(self) -> None:
        """What may be scheduled now, at ``due``."""
        scheduler, queue = self.scheduler, self.queue
        while len(queue) < scheduler.config.depth and scheduler.has_work():
            before = scheduler.step
            scheduled = scheduler.schedule(self.due)
            for name in scheduled.preempted:
                self.live[name].preemptions += 1
            if not scheduled.batch and scheduler.step == before:
                scheduler.discard(scheduled)
                return
            queue.append(scheduled)
            if not scheduled.batch:
                return

    def _leap(self, until: float, done: Callable[[Outcome], None], settle: bool) -> bool:
        """Make at once, or put off, what is alike: steps that begin before ``until``, and end by then where they end
        a request. False: there is none."""
        found = self.scheduler.ahead()
        if found[0] < _LEAST:
            return False
        ahead, requests, context = int(found[0]), int(found[1]), int(found[2])
        first, last = self._line(requests, context, ahead)
        if not first:
            return False
        growth = (last - first) / (ahead - 1)
        steps = ahead
        left = until - self.due
        total = ahead * (first + last) / 2
        if left < total:
            if not settle:
                self.calm = self.due + total
                return True
            half = first - growth / 2
            begun = left / first
            if growth > 1e-15:
                begun = (math.sqrt(half * half + 2 * growth * left) - half) / growth
            steps = min(math.ceil(begun), ahead - 1)
            if steps < 1:
                return False
        self.due += steps * (2 * first + growth * (steps - 1)) / 2
        self.steps += steps
        self._finish(self.scheduler.leap(steps, _TOKEN[0]), done)
        return True

    def _line(self, requests: int, context: int, steps: int) -> tuple[float, float]:
        """Seconds of the first and the last of so many steps, if those between lie on a line; or 0."""
        line = self.lines.get(requests)
        if line is None:
            line = self.lines[requests] = self._chord(
                requests, requests, requests * self.scheduler.config.max_model_len
            )
        if not line[0]:
            line = self._chord(requests, context, context + requests * (steps - 1))
        base, slope = line
        if not base:
            return 0.0, 0.0
        return base + slope * context, base + slope * (context + requests * (steps - 1))

    def _chord(self, requests: int, low: int, high: int) -> tuple[float, float]:
        """Seconds without context and for each of its tokens, if that holds from ``low`` to ``high``; or 0.

        The time is convex in the context: so it lies on the chord if its middle does.
        """
        middle = (low + high) // 2
        at = [self.timer.decodes(requests, context) for context in (low, middle, high)]
        if at[0] is None or at[1] is None or at[2] is None or low == high:
            return 0.0, 0.0
        slope = (at[2] - at[0]) / (high - low)
        base = at[0] - slope * low
        return (base, slope) if abs(base + slope * middle - at[1]) <= 1e-9 * at[1] else (0.0, 0.0)

    def _finish(self, ended: Sequence[StepFinished | RequestState], done: Callable[[Outcome], None]) -> None:
        for end in ended:
            outcome = self.live.pop(end.request_id)
            outcome.last = self.due
            outcome.output_tokens = end.output_tokens
            done(outcome)


_TOKEN = (7,)
_LEAST: Final = 3
"""Fewer steps are not worth a leap."""


@dataclass(frozen=True)
class Report:
    """``seconds`` from the first arrival to the last token."""

    outcomes: tuple[Outcome, ...]
    seconds: float
    steps: int
    tokens: int


def run(
    requests: Iterable[SimRequest],
    config: SchedulerConfig,
    timer: StepTimer,
    workers: int,
    *,
    route: Route = least_loaded,
    watch: Watch | None = None,
) -> Report:
    """Serve a trace, ordered by ``arrival``, on so many workers of a kind; every answer has its ``max_tokens``.

    Raises ValueError for a trace that is out of order, and like ``SimScheduler.add``.
    """
    lines: dict[int, tuple[float, float]] = {}
    fleet = [VirtualWorker(number, LeapingScheduler(config), timer, lines) for number in range(workers)]
    outcomes: list[Outcome] = []
    first = now = None
    done = outcomes.append
    for request in requests:
        if now is not None and request.arrival < now:
            raise ValueError(f"request {request.request_id} arrives before the one ahead of it")
        now = request.arrival
        first = now if first is None else first
        for worker in fleet:
            worker.run(now, done, watch)
        chosen = fleet[route(request, fleet)]
        chosen.run(now, done, watch, settle=True)
        chosen.add(request, now)
    for worker in fleet:
        worker.run(float("inf"), done, watch)
    end = max((outcome.last for outcome in outcomes), default=0.0)
    return Report(
        outcomes=tuple(outcomes),
        seconds=end - (first or 0.0),
        steps=sum(worker.steps for worker in fleet),
        tokens=sum(outcome.output_tokens for outcome in outcomes),
    )
