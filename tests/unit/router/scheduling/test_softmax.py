"""The picker that draws: likelier where better, and by nothing but its seed."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.router.scheduling.candidate import Ask, Candidate
from control_plane.router.scheduling.pickers import Softmax, chances

ASK = Ask("m", 1, 2, 2.0)
TOTALS = st.lists(st.floats(0, 1), min_size=1, max_size=30)
TEMPERATURES = st.floats(0.001, 100)


def candidates(count: int) -> list[Candidate]:
    return [Candidate(f"w-{index}", f"i-{index}", "m") for index in range(count)]


@given(TOTALS, TEMPERATURES)
def test_chances_sum_to_one_and_follow_the_totals(totals: list[float], temperature: float) -> None:
    odds = chances(totals, temperature)
    assert math.isclose(sum(odds), 1.0)
    assert all(0 <= chance <= 1 for chance in odds)
    for one, other in zip(
        sorted(zip(totals, odds, strict=True)), sorted(zip(totals, odds, strict=True))[1:], strict=False
    ):
        assert one[1] <= other[1]


@given(TOTALS, TEMPERATURES, st.floats(-1, 1))
def test_only_differences_count(totals: list[float], temperature: float, more: float) -> None:
    moved = chances([total + more for total in totals], temperature)
    assert all(
        math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
        for one, other in zip(chances(totals, temperature), moved, strict=True)
    )


def test_so_much_more_is_e_times_as_likely() -> None:
    low, high = chances([0.3, 0.5], 0.2)
    assert high / low == pytest.approx(math.e)
    assert chances([0.0, 1.0], 0.001) == [0.0, 1.0]


@given(TOTALS, TEMPERATURES, st.integers(0, 5))
def test_somebody_who_is_there_is_picked_and_the_seed_decides_whom(
    totals: list[float], temperature: float, seed: int
) -> None:
    there = candidates(len(totals))
    picker, again = Softmax(Random(seed), temperature), Softmax(Random(seed), temperature)
    for _ in range(5):
        picked = picker.pick(ASK, there, totals)
        assert picked in there
        assert again.pick(ASK, there, totals) is picked


def test_draws_come_as_often_as_their_chances_say() -> None:
    totals, there, draws = [0.9, 0.8, 0.8, 0.5], candidates(4), 20_000
    picker = Softmax(Random(11), 0.15)
    seen = Counter(picker.pick(ASK, there, totals).worker_id for _ in range(draws))
    expected = [chance * draws for chance in chances(totals, 0.15)]
    chi_square = sum(
        (seen[candidate.worker_id] - wanted) ** 2 / wanted for candidate, wanted in zip(there, expected, strict=True)
    )
    assert chi_square < 16.3  # three degrees of freedom, one in a thousand; the seed is fixed
