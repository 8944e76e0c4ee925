"""Other clocks, measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.fleet.clocks import Exchange, skew

delays = st.floats(0, 10)


@given(st.floats(-1e6, 1e6), st.lists(st.tuples(delays, delays), min_size=1, max_size=8))
def test_the_truth_is_within_the_uncertainty(ahead: float, there_and_back: list[tuple[float, float]]) -> None:
    exchanges = [
        Exchange(asked, asked + there + ahead, asked + there + back)
        for asked, (there, back) in enumerate(there_and_back, start=1000)
    ]
    found = skew("worker/w1", exchanges)
    assert abs(found.ahead_s - ahead) <= found.uncertainty_s + 1e-6
    assert found.uncertainty_s <= min(there + back for there, back in there_and_back) / 2 + 1e-6


def test_there_is_no_answer_without_a_question() -> None:
    with pytest.raises(ValueError, match="empty"):
        skew("worker/w1", [])
