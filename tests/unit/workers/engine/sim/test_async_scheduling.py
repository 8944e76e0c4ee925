"""Steps that are decided while one runs; ``tests/parity`` compares them with vLLM's own."""

from __future__ import annotations

import random
from typing import Any

import pytest

from control_plane.contracts.sizing.step_cost import StepCost
from control_plane.contracts.step import StepFinished, StepKind
from workers.engine.sim.config import SchedulerConfig
from workers.engine.sim.leap import LeapingScheduler
from workers.engine.sim.request import SimRequest
from workers.engine.sim.scheduled import Scheduled
from workers.engine.sim.scheduler import SimScheduler
from workers.engine.sim.step_time import MeasuredTimer
from workers.engine.sim.virtual import run

CLOCK = MeasuredTimer(StepCost(step_s=0.01, prefill_s=0.0, decode=((1, 0.0),), context_s=0.0))


def config(**settings: Any) -> SchedulerConfig:
    values: dict[str, Any] = {
        "block_size": 4,
        "total_blocks": 16,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 16,
        "max_model_len": 64,
        "async_scheduling": True,
    }
    return SchedulerConfig(**{**values, **settings})


def request(request_id: str, prompt: int = 4, max_tokens: int = 4, first: int = 0, **fields: Any) -> SimRequest:
    return SimRequest(request_id, list(range(first, first + prompt)), max_tokens, **fields)


def end(
    sim: SimScheduler, scheduled: Scheduled, token: int = 7, ended: dict[str, str] | None = None
) -> tuple[StepFinished, ...]:
    return sim.complete(scheduled, dict.fromkeys(scheduled.due, (token,)), ended)


def names(scheduled: Scheduled) -> list[str]:
    return [row.request_id for row in scheduled.rows]


def test_a_step_counts_on_the_token_that_the_one_before_it_gives() -> None:
    sim = SimScheduler(config())
    sim.add(request("a", prompt=5, max_tokens=3))
    first = sim.schedule(0.0)
    second = sim.schedule(0.0)
    (row,) = second.rows
    assert (row.kind, row.tokens, row.computed, row.output_tokens) == (StepKind.DECODE, 1, 5, 1)
    assert second.due == ("a",)
    assert end(sim, first) == ()
    third = sim.schedule(0.0)
    assert names(third) == ["a"]
    assert end(sim, second) == ()
    fourth = sim.schedule(0.0)
    assert names(fourth) == [], "its last token is on the way"
    assert sim.counts().used == 2
    assert end(sim, third) == (StepFinished("a", "length", 3, 2),)
    assert sim.counts().used == 0
    assert end(sim, fourth) == ()
    assert (first.step, second.step, third.step, fourth.step) == (1, 2, 3, 3)
    assert not sim.has_work()


def test_one_that_stops_has_a_step_too_many_and_its_end_is_told_with_that() -> None:
    sim = SimScheduler(config())
    sim.add(request("a", max_tokens=9))
    first, second = sim.schedule(0.0), sim.schedule(0.0)
    assert end(sim, first, ended={"a": "stop"}) == ()
    assert sim.counts().used == 0
    assert sim.told_counts().used == 1, "the first was over when the second took its block"
    third = sim.schedule(0.0)
    assert names(second) == ["a"]
    assert names(third) == []
    assert end(sim, second) == (StepFinished("a", "stop", 1, 2),)
    assert end(sim, third) == ()


@pytest.mark.parametrize("by", ["abort", "length"])
def test_who_ends_after_a_snapshot_is_told_with_a_step_that_it_has_not(by: str) -> None:
    """Whoever has the snapshot passes over the steps up to its own: such an end would never be heard."""
    sim = SimScheduler(config())
    sim.add(request("a", max_tokens=1))
    first = sim.schedule(0.0)
    held = sim.snapshot()
    assert (held.step, [table.request_id for table in held.tables]) == (first.step, ["a"])
    nothing = sim.schedule(0.0)
    assert nothing.step == first.step
    sim.discard(nothing)
    if by == "abort":
        sim.abort("a")
    assert end(sim, first) == ()
    later = sim.schedule(0.0)
    assert later.step == held.step + 1
    assert [each.request_id for each in end(sim, later)] == ["a"]
    assert not sim.has_work()


def test_a_token_that_is_on_the_way_to_one_that_is_pushed_out_comes_all_the_same() -> None:
    sim = SimScheduler(config(total_blocks=5, max_model_len=20, enable_prefix_caching=False))
    sim.add(request("a", prompt=7, max_tokens=8))
    sim.add(request("b", prompt=8, max_tokens=8, first=100))
    flying = [sim.schedule(0.0)]
    pushed: Scheduled | None = None
    for _ in range(20):
        flying.append(sim.schedule(0.0))
        if flying[-1].preempted:
            pushed = flying[-1]
            break
        end(sim, flying.pop(0))
    assert pushed is not None
    assert pushed.preempted == ("b",)
    assert flying[0].due == ("a", "b")
    before = {one.request_id: one.tokens for one in sim.waiting()}
    end(sim, flying.pop(0))
    assert [(one.request_id, one.tokens, one.preempted) for one in sim.waiting()] == [("b", before["b"] + 1, True)]
    told: list[StepFinished] = []
    while sim.has_work() or flying:
        flying.append(sim.schedule(0.0))
        told += end(sim, flying.pop(0))
        while flying and not sim.has_work():
            told += end(sim, flying.pop(0))
    assert {(one.request_id, one.output_tokens) for one in told} == {("a", 8), ("b", 8)}


def test_a_block_is_cached_when_its_last_token_has_come() -> None:
    sim = SimScheduler(config())
    sim.add(request("a", prompt=6, max_tokens=6))
    flying = sim.schedule(0.0)
    for _ in range(2):
        ahead = sim.schedule(0.0)
        end(sim, flying)
        flying = ahead
    # Two of its tokens are known, a third is on the way: eight, which are two blocks, the second computed in flight.
    assert len(sim.cached_keys()) == 1
    ahead = sim.schedule(0.0)
    assert len(sim.cached_keys()) == 2
    end(sim, flying)
    end(sim, ahead)


def test_one_alone_takes_a_step_a_token_and_who_comes_during_one_waits_for_the_one_after_it() -> None:
    sizes = config(block_size=16, total_blocks=40, max_num_batched_tokens=128, max_model_len=512)
    requests = [SimRequest("a", [5] * 20, 6, arrival=0.0), SimRequest("b", [6] * 20, 2, arrival=0.013)]
    outcomes = {outcome.request_id: outcome for outcome in run(requests, sizes, CLOCK, 1).outcomes}
    assert outcomes["a"].ttft_s == pytest.approx(0.01)
    assert outcomes["a"].itl_s == pytest.approx(0.01)
    assert outcomes["b"].first == pytest.approx(0.04)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("blocks", [40, 400])
def test_everything_ends_with_its_tokens_in_virtual_time(workers: int, blocks: int) -> None:
    sizes = config(block_size=16, total_blocks=blocks, max_num_seqs=8, max_num_batched_tokens=128, max_model_len=512)
    dice, now, requests = random.Random(blocks), 0.0, []
    for number in range(80):
        now += dice.expovariate(50.0)
        requests.append(SimRequest(f"r{number}", [number + 3] * dice.randint(1, 200), dice.randint(1, 60), arrival=now))
    report = run(requests, sizes, CLOCK, workers)
    wanted = {each.request_id: each for each in requests}
    assert {outcome.request_id: outcome.output_tokens for outcome in report.outcomes} == {
        name: each.max_tokens for name, each in wanted.items()
    }
    assert all(wanted[one.request_id].arrival < one.first <= one.last for one in report.outcomes)
    assert (sum(one.preemptions for one in report.outcomes) > 0) is (blocks == 40)


def test_nothing_leaps_over_steps_that_overlap() -> None:
    sim = LeapingScheduler(config())
    sim.add(request("a", max_tokens=20))
    end(sim, sim.schedule(0.0))
    assert sim.ahead() == (0, 0, 0)
