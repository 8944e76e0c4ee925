from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.contracts.sizing.step_cost import StepCost
from control_plane.contracts.step import StepFinished
from workers.engine.sim.config import SchedulerConfig
from workers.engine.sim.leap import LeapingScheduler
from workers.engine.sim.profile import profile_of
from workers.engine.sim.request import SimRequest
from workers.engine.sim.scheduled import Scheduled
from workers.engine.sim.settings import SimSettings
from workers.engine.sim.step_time import MeasuredTimer
from workers.engine.sim.virtual import run

CONFIG = SchedulerConfig(block_size=16, total_blocks=40, max_num_seqs=8, max_num_batched_tokens=128, max_model_len=512)
CLOCK = MeasuredTimer(StepCost(step_s=0.01, prefill_s=0.0, decode=((1, 0.0),), context_s=0.0))


def trace(seed: int, count: int, rate: float) -> list[SimRequest]:
    dice, now, requests = random.Random(seed), 0.0, []
    for n in range(count):
        now += dice.expovariate(rate)
        prompt = [n + 3] * dice.randint(1, 200)
        requests.append(SimRequest(f"r{n}", prompt, dice.randint(1, 60), arrival=now))
    return requests


def test_one_request_alone_takes_a_step_a_token() -> None:
    report = run([SimRequest("a", [5] * 20, 5, arrival=2.0)], CONFIG, CLOCK, 1)
    (outcome,) = report.outcomes
    assert outcome.ttft_s == pytest.approx(0.01)
    assert outcome.itl_s == pytest.approx(0.01)
    assert (report.steps, report.tokens) == (5, 5)
    assert report.seconds == pytest.approx(0.05)


def test_who_comes_during_a_step_waits_for_its_end() -> None:
    requests = [SimRequest("a", [5] * 20, 5, arrival=0.0), SimRequest("b", [6] * 20, 2, arrival=0.013)]
    outcomes = {outcome.request_id: outcome for outcome in run(requests, CONFIG, CLOCK, 1).outcomes}
    assert outcomes["b"].first == pytest.approx(0.03)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 4), st.sampled_from([5.0, 50.0, 1000.0]))
def test_everything_ends_with_its_tokens_and_time_goes_forward(seed: int, workers: int, rate: float) -> None:
    requests = trace(seed, 60, rate)
    ends = [0.0] * workers

    def watch(worker: int, scheduled: Scheduled, begun: float, seconds: float) -> None:
        assert begun >= ends[worker] - 1e-9
        ends[worker] = begun + seconds

    report = run(requests, CONFIG, CLOCK, workers, watch=watch)
    wanted = {request.request_id: request for request in requests}
    assert {outcome.request_id for outcome in report.outcomes} == set(wanted)
    for outcome in report.outcomes:
        request = wanted[outcome.request_id]
        assert outcome.output_tokens == request.max_tokens
        assert request.arrival < outcome.first <= outcome.last


def test_more_workers_are_faster_and_memory_pressure_shows() -> None:
    requests = trace(1, 80, 1000.0)
    one, four = run(requests, CONFIG, CLOCK, 1), run(requests, CONFIG, CLOCK, 4)
    assert four.seconds < one.seconds / 2
    assert sum(outcome.preemptions for outcome in one.outcomes) > 0


def test_a_trace_out_of_order_is_refused() -> None:
    late = [SimRequest("a", [1], 1, arrival=2.0), SimRequest("b", [1], 1, arrival=1.0)]
    with pytest.raises(ValueError, match="request b"):
        run(late, CONFIG, CLOCK, 1)


def test_a_profile_gives_the_times() -> None:
    timer = profile_of(SimSettings(profile="h100-llama-3.1-8b")).timer
    report = run([SimRequest("a", [5] * 100, 10, arrival=0.0)], CONFIG, timer, 1)
    assert 0.005 < report.outcomes[0].itl_s < 0.008


def unwatched(worker: int, scheduled: Scheduled, begun: float, seconds: float) -> None:
    """Steps that are watched are made one by one."""


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 3),
    st.sampled_from([1.0, 5.0, 20.0, 100.0]),
    st.sampled_from([40, 80, 400]),
    st.sampled_from([1, 16]),
    st.sampled_from([CLOCK, MeasuredTimer(StepCost(4e-3, 1e-4, ((1, 1e-3), (4, 6e-3)), 1e-6))]),
)
def test_leaps_change_nothing(
    seed: int, workers: int, rate: float, blocks: int, block_size: int, timer: MeasuredTimer
) -> None:
    config = SchedulerConfig(
        block_size=block_size,
        total_blocks=blocks * 16 // block_size,
        max_num_seqs=8,
        max_num_batched_tokens=128,
        max_model_len=512,
    )
    requests = trace(seed, 40, rate)
    leapt = run(requests, config, timer, workers)
    stepped = run(requests, config, timer, workers, watch=unwatched)
    assert (leapt.steps, leapt.tokens) == (stepped.steps, stepped.tokens)
    one, other = ({outcome.request_id: outcome for outcome in report.outcomes} for report in (leapt, stepped))
    for name, outcome in one.items():
        same = other[name]
        assert (outcome.worker, outcome.output_tokens, outcome.preemptions) == (
            same.worker,
            same.output_tokens,
            same.preemptions,
        )
        assert outcome.first == pytest.approx(same.first, abs=1e-6)
        assert outcome.last == pytest.approx(same.last, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 8), st.sampled_from([1, 4, 16]), st.booleans())
def test_a_leap_leaves_the_blocks_that_steps_leave(seed: int, count: int, block_size: int, alike: bool) -> None:
    dice = random.Random(seed)
    config = SchedulerConfig(
        block_size=block_size, total_blocks=2000, max_num_seqs=8, max_num_batched_tokens=4000, max_model_len=300
    )
    leaping, stepping = LeapingScheduler(config), LeapingScheduler(config)
    for round_ in range(3):
        for n in range(count):
            prompt = [5 if alike else n + round_ + 9] * dice.randint(1, 150)
            request = SimRequest(f"{round_}-{n}", prompt, dice.randint(2, 100))
            leaping.add(request)
            stepping.add(request)
        while leaping.has_work():
            steps, _, _ = leaping.ahead()
            if steps:
                steps = dice.randint(1, steps)
                finished = leaping.leap(steps, 7)
            else:
                steps, scheduled = 1, leaping.schedule(0.0)
                finished = leaping.complete(scheduled, {name: [7] for name in scheduled.due})
            ended: tuple[StepFinished, ...] = ()
            for _ in range(steps):
                scheduled = stepping.schedule(0.0)
                ended += stepping.complete(scheduled, {name: [7] for name in scheduled.due})
            assert ended == finished
            assert leaping.snapshot() == stepping.snapshot()
