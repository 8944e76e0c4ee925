from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.router.expectation import FIRST_GUESS_OUTPUT, Expectation
from control_plane.router.meter import Meter
from control_plane.router.scheduling.filters import full


@pytest.mark.parametrize(
    ("held", "batch", "expected"), [(0, 0, False), (10**6, 0, False), (31, 16, False), (32, 16, True), (1, 1, False)]
)
def test_full_is_one_batch_running_and_one_waiting(held: int, batch: int, expected: bool) -> None:
    assert full(held, batch) is expected


def test_no_call_is_expected_to_produce_more_than_it_may() -> None:
    expectation = Expectation()
    assert expectation.of(10, 5, 2) == 20
    assert expectation.of(10, 10**6, 1) == 10 + FIRST_GUESS_OUTPUT


def test_expectations_follow_the_traffic() -> None:
    expectation = Expectation()
    for _ in range(100):
        expectation.learn(prompt_tokens=1000, output_tokens=40, choices=2)
    assert expectation.of(0, 10**6, 1) == pytest.approx(20, abs=0.1)
    assert expectation.whole == pytest.approx(1040, abs=0.1)


@given(st.lists(st.floats(1e-6, 100)), st.lists(st.floats(1e-6, 100)))
def test_what_is_put_back_is_not_lost(first: list[float], second: list[float]) -> None:
    meter = Meter()
    for value in first:
        meter.add_ttft(value)
    taken = meter.take()
    assert not meter
    for value in second:
        meter.add_ttft(value)
    meter.put_back(taken)
    assert sum(meter.ttft.values()) == len(first) + len(second)
    assert bool(meter) is bool(first or second)
