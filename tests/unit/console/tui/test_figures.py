from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.tui.render import figures


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0.0, "0s"),
        (85e-6, "85µs"),
        (0.00999, "10ms"),
        (0.0042, "4.2ms"),
        (0.312, "312ms"),
        (0.9996, "1.00s"),
        (1.9, "1.90s"),
        (9.996, "10.0s"),
        (12.34, "12.3s"),
        (59.96, "59s"),
        (125.0, "2m05s"),
        (math.nan, "–"),
        (math.inf, "–"),
    ],
)
def test_duration(value: float | None, shown: str) -> None:
    assert figures.duration(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (0, "0"), (9999, "9999"), (12_345, "12k"), (999_499, "999k"), (3_400_000, "3.4M"), (5.6e9, "5.6G")],
)
def test_count(value: float | None, shown: str) -> None:
    assert figures.count(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "–"), (0, "0"), (0.4, "0.4"), (6.31, "6.3"), (9.96, "10"), (412.4, "412")]
)
def test_rate(value: float | None, shown: str) -> None:
    assert figures.rate(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "–"), (-3.0, "0s"), (8.9, "8s"), (3725.0, "1h02m"), (math.nan, "–"), (1e12, "ever")]
)
def test_age(value: float | None, shown: str) -> None:
    assert figures.age(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "–"), (512 << 20, "512MiB"), (1_395_864_371, "1.3GiB"), (800, "800B")]
)
def test_size(value: float | None, shown: str) -> None:
    assert figures.size(value) == shown


def test_clock_is_local_time_of_day() -> None:
    assert figures.clock(1_700_000_000.0) == "22:13:20"
    assert figures.clock(0.0) == "–"
    assert figures.clock(1e300) == "–"


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_no_number_is_too_much_or_too_wide(value: float) -> None:
    for form in (
        figures.count,
        figures.rate,
        figures.percent,
        figures.duration,
        figures.age,
        figures.size,
        figures.clock,
    ):
        assert len(form(value)) <= 12
