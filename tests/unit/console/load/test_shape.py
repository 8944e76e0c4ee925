from __future__ import annotations

from itertools import islice, pairwise
from random import Random

import pytest

from console.load.shape import Length, arrivals
from control_plane.contracts.errors import InvalidRequest


def test_a_fixed_length_is_always_the_same() -> None:
    assert {Length.parse("128", "-p").draw(Random(n)) for n in range(20)} == {128}


@pytest.mark.parametrize("text", ["2-5", "2..5"])
def test_a_uniform_length_takes_every_value_between_its_ends(text: str) -> None:
    random = Random(1)
    assert {Length.parse(text, "-p").draw(random) for _ in range(200)} == {2, 3, 4, 5}


def test_a_lognormal_length_has_its_median_and_stays_positive() -> None:
    random = Random(1)
    drawn = sorted(Length.parse("lognormal:100,1.5", "-p").draw(random) for _ in range(4001))
    assert 90 < drawn[2000] < 110
    assert drawn[0] >= 1
    assert drawn[-1] > 1000


@pytest.mark.parametrize("text", ["", "0", "-3", "5-2", "x", "lognormal:5", "lognormal:0,1", "9999999", "1.5"])
def test_what_is_no_length_names_its_option(text: str) -> None:
    with pytest.raises(InvalidRequest, match="--output-tokens"):
        Length.parse(text, "--output-tokens")


def test_arrivals_at_a_constant_rate() -> None:
    assert list(islice(arrivals(4.0, poisson=False, random=Random(0)), 4)) == [0.0, 0.25, 0.5, 0.75]


def test_poisson_arrivals_have_the_rate_and_the_spread_of_poisson() -> None:
    times = list(islice(arrivals(10.0, poisson=True, random=Random(7)), 5001))
    gaps = [later - earlier for earlier, later in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert 0.095 < mean < 0.105
    assert 0.9 < variance / mean**2 < 1.1
