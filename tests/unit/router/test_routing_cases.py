"""Whole runs in virtual time: many chats, simulated workers, one router or two."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random

import pytest

from tests.virtual_fleet import START, SteadyTimer, Told, VirtualFleet, config

TIMER = SteadyTimer(step_s=0.02)


def prompt_of(seed: int, tokens: int = 2000) -> list[int]:
    dice = Random(seed)
    return [dice.randrange(32_000) for _ in range(tokens)]


def chats(
    fleet: VirtualFleet, prefixes: list[list[int]], count: int, per_s: float, *, begin: float = 0.0
) -> list[Told]:
    """Poisson arrivals, each with one of the prefixes and an own end, answered in 30 to 60 steps."""
    dice, at, asked = Random(5), begin, []
    for number in range(count):
        at += dice.expovariate(per_s)
        prompt = [*dice.choice(prefixes), *(dice.randrange(32_000) for _ in range(30))]
        asked.append(fleet.ask(prompt, [7] * dice.randint(30, 60), at=at, router=number % len(fleet.routers)))
    return asked


def test_one_hot_prefix_loads_nobody_more_than_half_above_the_mean() -> None:
    """R01: 4 workers, 400 chats with the same 2k prefix, 40 a second."""
    fleet = VirtualFleet(4, config(4000), TIMER)
    chats(fleet, [prompt_of(1)], 400, 40.0)
    fleet.run()
    assert all(told.error is None for told in fleet.all)
    assert fleet.longest_above(1.5, begin=1.0, end=10.0) <= 2.0
    assert sum(told.cached > 1900 for told in fleet.all) >= 380


def test_forty_prefixes_keep_to_their_workers_while_the_load_is_even() -> None:
    """R01."""
    fleet = VirtualFleet(4, config(16_000), TIMER)
    prefixes = [prompt_of(seed) for seed in range(40)]
    chats(fleet, prefixes, 800, 40.0)
    places = defaultdict[int, Counter[str]](Counter)
    for told in fleet.run():
        places[told.call.prompt_token_ids[0]][told.worker_id] += 1
    kept = sum(max(counts.values()) for counts in places.values())
    assert kept / len(fleet.all) >= 0.8
    assert fleet.longest_above(1.5, begin=2.0, end=18.0) <= 2.0


def test_a_saturated_holder_is_skipped_and_the_others_keep_their_prefixes() -> None:
    """R01: then one worker says that its KV cache is full."""
    fleet = VirtualFleet(4, config(16_000), TIMER)
    prefixes = [prompt_of(seed) for seed in range(40)]
    chats(fleet, prefixes, 200, 40.0)
    fleet.run()
    fleet.workers["w1"].kv_usage = 0.95
    fleet.rest(1.0)
    before = {told.call.prompt_token_ids[0]: told.worker_id for told in fleet.all}
    later = chats(fleet, prefixes, 200, 40.0, begin=fleet.now - 1000.0)
    fleet.run()
    assert all(told.worker_id != "w1" for told in later)
    others = [told for told in later if before.get(told.call.prompt_token_ids[0]) not in (None, "w1")]
    assert sum(told.cached > 1900 for told in others) >= 0.8 * len(others)


def test_what_is_predicted_is_what_is_cached() -> None:
    """Also under evictions, with events that come late."""
    fleet = VirtualFleet(3, config(500), TIMER)
    chats(fleet, [prompt_of(seed, 600) for seed in range(12)], 300, 8.0)
    fleet.run()
    exact = sum(told.predicted == told.cached for told in fleet.all)
    assert exact >= 0.95 * len(fleet.all)
    assert sum(told.cached for told in fleet.all) > 0
    for router in fleet.routers:
        for worker in fleet.workers.values():
            assert router.shelf(worker.worker_id) == len(worker.journal.hashes) <= 500


def test_without_events_estimates_find_almost_as_much() -> None:
    hits = {}
    for events in (True, False):
        fleet = VirtualFleet(3, config(1000), TIMER, events=events)
        chats(fleet, [prompt_of(seed, 600) for seed in range(12)], 300, 8.0)
        hits[events] = sum(told.cached for told in fleet.run()) / sum(told.prompt_tokens for told in fleet.all)
        assert all(told.predicted is not None for told in fleet.all)
    assert hits[False] >= 0.9 * hits[True] > 0.5


def test_a_worker_that_starts_again_is_credited_with_nothing() -> None:
    """R04."""
    fleet = VirtualFleet(2, config(1000), TIMER)
    prompt = prompt_of(1)
    first = fleet.ask(prompt, [7] * 5)
    fleet.run()
    worker = fleet.workers[first.worker_id]
    worker.restart()
    fleet.publish()
    assert fleet.routers[0].shelf(worker.worker_id) == 0
    second = fleet.ask(prompt, [7] * 5)
    fleet.run()
    assert (second.predicted, second.cached) == (0, 0)
    third = fleet.ask(prompt, [7] * 5)
    fleet.run()
    assert third.worker_id == second.worker_id
    assert third.predicted == third.cached == 1984


def test_what_ran_on_a_lost_worker_is_found_again_where_its_prefix_is() -> None:
    fleet = VirtualFleet(3, config(4000), TIMER)
    asked = [fleet.ask(prompt_of(1), [7] * 200, at=0.1 * number) for number in range(12)]
    fleet.rest(2.0)
    fleet.workers["w1"].restart()
    fleet.publish()
    fleet.run()
    assert all(told.error is None and told.done is not None for told in asked)
    moved = [told for told in asked if told.request is not None and told.request.retries]
    assert moved
    # What the others generate meanwhile may be told a block late.
    assert all(abs((told.predicted or 0) - told.cached) <= 16 for told in moved)
    assert sum(told.cached >= 1984 for told in moved) >= len(moved) - 2


@pytest.mark.parametrize("profile", ["prefix_aware", "least_load", "balanced"])
def test_two_routers_over_one_fleet_do_not_herd(profile: str) -> None:
    """Each sees of the other's picks only what samples tell, half a second late."""
    fleet = VirtualFleet(4, config(16_000), TIMER, routers=2, profile=profile)
    dice = Random(3)
    at = 0.0
    for number in range(800):
        at += dice.expovariate(40.0)
        prompt = prompt_of(1000 + number, 200)
        fleet.ask(prompt, [7] * dice.randint(30, 60), at=at, router=dice.randrange(2))
    fleet.run()
    assert fleet.longest_above(1.5, begin=1.0, end=18.0) <= 1.0
    shares = Counter(told.worker_id for told in fleet.all)
    assert max(shares.values()) <= 1.25 * len(fleet.all) / 4


def test_a_worker_that_comes_back_is_not_flooded() -> None:
    """R03: with nothing in flight it is the best of all, and gets its share and what the others are ahead, no more."""
    fleet = VirtualFleet(4, config(16_000), TIMER)
    dice, at = Random(3), 0.0
    for number in range(800):
        at += dice.expovariate(40.0)
        fleet.ask(prompt_of(1000 + number, 200), [7] * dice.randint(30, 60), at=at)

    def die_and_come_back() -> None:
        fleet.workers["w1"].restart()
        fleet.publish()

    fleet.at(START + 5.0, die_and_come_back)
    fleet.run()
    assert all(told.error is None for told in fleet.all)
    assert fleet.longest_above(1.5, begin=1.0, end=18.0) <= 1.0
    for begin, most in ((0.0, 1.25), (5.0, 1.5), (10.0, 1.25)):
        those = [told for told in fleet.all if begin <= told.call.arrival_mono - START < begin + 5.0]
        shares = Counter(told.worker_id for told in those)
        assert max(shares.values()) <= most * len(those) / 4, (begin, shares)


def test_a_worker_that_falls_silent_while_idle_does_not_get_everything() -> None:
    """AD02 (a)."""
    fleet = VirtualFleet(3, config(16_000), TIMER)
    fleet.workers["w3"].muted = True
    fleet.rest(5.0)
    for number in range(300):
        fleet.ask(prompt_of(number, 200), [7] * 40, at=5.0 + number / 30)
    fleet.run()
    shares = Counter(told.worker_id for told in fleet.all)
    assert 0 < shares["w3"] <= 300 / 3


def test_where_all_fall_silent_calls_are_spread_by_our_own_count() -> None:
    """AD02 (b)."""
    fleet = VirtualFleet(3, config(16_000), TIMER)
    for worker in fleet.workers.values():
        worker.muted = True
    fleet.rest(5.0)
    for number in range(300):
        fleet.ask(prompt_of(number, 200), [7] * 40, at=5.0 + number / 30)
    fleet.run()
    assert all(told.error is None for told in fleet.all)
    shares = Counter(told.worker_id for told in fleet.all)
    assert max(shares.values()) <= 1.2 * 100
    assert fleet.longest_above(1.5, begin=6.0, end=14.0) <= 1.0
