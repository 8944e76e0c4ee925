from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.histogram import LatencyHistogram

durations = st.lists(st.floats(1e-5, 3600), min_size=1, max_size=200)


def filled(values: list[float]) -> LatencyHistogram:
    histogram = LatencyHistogram()
    for value in values:
        histogram.add(value)
    return histogram


@given(durations, st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_within_two_percent_of_the_exact_one(values: list[float], q: float) -> None:
    ordered = sorted(values)
    exact = ordered[max(0, -(-int(q * 1000) * len(values) // 1000) - 1)]
    assert filled(values).quantile(q) == pytest.approx(exact, rel=0.021)


@given(durations, durations)
def test_merging_is_the_same_as_measuring_together(left: list[float], right: list[float]) -> None:
    together = filled(left + right)
    merged = LatencyHistogram.merged([filled(left), filled(right)])
    assert (merged.buckets, merged.count) == (together.buckets, together.count)


def test_empty_says_zero_and_nonsense_is_clamped() -> None:
    assert LatencyHistogram().quantile(0.5) == 0.0
    assert filled([0.0, -1.0]).quantile(1.0) == pytest.approx(1e-6, rel=0.05)


def test_survives_its_wire_form() -> None:
    values = [0.01 * index for index in range(1, 101)]
    again = LatencyHistogram(filled(values).buckets)
    assert again.quantile(0.5) == pytest.approx(statistics.median_low(values), rel=0.021)
