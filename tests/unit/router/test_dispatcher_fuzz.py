"""Thousands of requests with everything going wrong at random: what the router counts stays equal to what the workers
hold, every request ends exactly once, and at the end everything is at zero."""

from __future__ import annotations

import itertools
from collections import Counter
from random import Random

import pytest

from control_plane.contracts.call import CallHandle
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.fleet import RequestPhase, WorkerPhase
from control_plane.contracts.worker import Load, WorkerState
from tests.unit.router.stage import RecordingSink, Stage, StageLink, StageWorker
from tests.unit.router.tiers import ENTERPRISE, FREE, PAID

REFUSALS = ("draining", "overloaded", "no_capacity")
FAULTS = ("internal_error", "engine_dead", "worker_lost", "invalid_request", "context_length_exceeded")


class Chaos:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.stage = Stage(
            seed=seed, queue_timeout_s=4.0, queue_limit=60, profile=self.rng.choice(["least_load", "round_robin"])
        )
        self.instances = itertools.count(2)
        self.handles: dict[str, CallHandle] = {}
        self.sinks: dict[str, RecordingSink] = {}
        self.left: set[str] = set()
        self.refused = 0
        self.stage.start("a", "b", "c", max_num_seqs=self.rng.choice([0, 4]))

    def open_links(self, *, connected: bool) -> list[StageLink]:
        return [k for k in self.stage.links if not k.closed and k.target.candidate.connected is connected]

    def arrive(self) -> None:
        rng, sink = self.rng, RecordingSink()
        call = self.stage.call(
            prompt=rng.randint(1, 50),
            max_tokens=rng.randint(1, 300),
            n=rng.choice([1, 1, 1, 3]),
            stream=rng.random() < 0.7,
            flow=rng.choice("xyz"),
            **rng.choice([ENTERPRISE, PAID, FREE]),
        )
        try:
            self.handles[call.request_id] = self.stage.dispatcher.submit(call, sink)
            self.sinks[call.request_id] = sink
        except InferDeckError:
            self.refused += 1

    def work(self) -> None:
        """One worker says something about one of its calls."""
        links = [link for link in self.open_links(connected=True) if link.running]
        if not links:
            return
        link = self.rng.choice(links)
        request_id = self.rng.choice(list(link.running.values())).request_id
        roll = self.rng.random()
        begun = self.sinks[request_id].deltas or self.stage.ledger.find(request_id) is None
        if roll < 0.5:
            link.token(request_id, choice=self.rng.randint(0, 2))
        elif roll < 0.85:
            link.finish(request_id)
        elif roll < 0.92 and not begun:
            link.fail(request_id, self.rng.choice(REFUSALS))
        elif roll < 0.97:
            link.fail(request_id, self.rng.choice(FAULTS))
        else:
            link.aborted_outside(request_id)

    def cancel(self) -> None:
        if not self.handles:
            return
        request_id = self.rng.choice(list(self.handles)[-80:])
        if self.rng.random() < 0.8:
            if not self.sinks[request_id].over:
                self.left.add(request_id)
            self.handles[request_id].cancel("client_left")
        else:
            self.stage.dispatcher.cancel(request_id)

    def break_link(self) -> None:
        if links := self.open_links(connected=True):
            self.rng.choice(links).down()

    def mend_links(self) -> None:
        for link in self.open_links(connected=False):
            link.up()

    def change_fleet(self) -> None:
        rng, workers = self.rng, list(self.stage.workers.values())
        worker = rng.choice(workers)
        roll = rng.random()
        if roll < 0.25:
            worker.cordoned = not worker.cordoned
        elif roll < 0.5:
            worker.instance_id = f"{worker.worker_id}-i{next(self.instances)}"
            worker.phase = WorkerPhase.READY
        elif roll < 0.75:
            worker.phase = rng.choice(list(WorkerPhase)[1:])
        elif roll < 0.85:
            running, waiting, kv_usage = rng.randint(0, 9), rng.choice([0, 0, rng.randint(1, 9)]), rng.random()
            load = Load(worker.instance_id, self.stage.now, WorkerState.READY, running, waiting, kv_usage=kv_usage)
            worker.load, worker.load_age_s = load, rng.choice([0.0, 9.0])
        else:
            workers = [other for other in workers if other is not worker] or workers
        for name in "abc":
            if rng.random() < 0.2 and name not in {other.worker_id for other in workers}:
                workers.append(StageWorker(name, f"{name}-i{next(self.instances)}"))
        self.stage.publish(*workers)

    def pass_time(self) -> None:
        self.stage.advance(self.rng.random() * 0.4)

    def step(self) -> None:
        actions = (
            self.arrive,
            self.work,
            self.cancel,
            self.break_link,
            self.mend_links,
            self.change_fleet,
            self.pass_time,
        )
        self.rng.choices(actions, (30, 120, 12, 1, 3, 2, 12))[0]()

    def settle(self) -> None:
        """Nothing arrives any more and all is well: the workers finish what they hold."""
        self.stage.publish(*(StageWorker(name, f"{name}-last") for name in "abc"))
        for _ in range(100_000):
            self.mend_links()
            links = [link for link in self.open_links(connected=True) if link.running]
            if not links and not self.stage.dispatcher.queued:
                return
            for link in links:
                link.finish(next(iter(link.running.values())).request_id)
            self.stage.advance(0.05)
        raise AssertionError("it never came to rest")


@pytest.mark.parametrize("seed", range(5))
def test_counts_stay_true_whatever_happens(seed: int) -> None:
    chaos = Chaos(seed)
    ended: Counter[str] = Counter()
    phases: Counter[RequestPhase] = Counter()
    retried = 0
    for step in range(9_000):
        chaos.step()
        if step % 25 == 0:
            chaos.stage.check()
            for view in chaos.stage.ledger.take(chaos.stage.now).ended:
                ended[view.id] += 1
                phases[view.phase] += 1
                retried += view.retries > 0
    chaos.settle()
    chaos.stage.check()
    for view in chaos.stage.ledger.take(chaos.stage.now).ended:
        ended[view.id] += 1
        phases[view.phase] += 1
    assert len(chaos.sinks) > 1000
    assert set(chaos.sinks) <= set(ended)
    assert set(ended.values()) == {1}, "each request ends once"
    for request_id, sink in chaos.sinks.items():
        assert sink.over is (request_id not in chaos.left), "exactly those that left by themselves hear no end"
    assert all(phases[phase] for phase in (RequestPhase.FINISHED, RequestPhase.CANCELLED, RequestPhase.FAILED))
    assert retried
    assert len(chaos.stage.ledger) == 0
    assert chaos.stage.dispatcher.queued == 0
    for link in chaos.stage.links:
        candidate = link.target.candidate
        assert (candidate.requests, candidate.sequences, candidate.tokens) == (0, 0, 0.0)
    closed = [link for link in chaos.stage.links if link.target not in chaos.stage.dispatcher.targets.all()]
    assert all(link.closed for link in closed), "no link outlives its target"
