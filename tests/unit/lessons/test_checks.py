from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons.checks import Bounds, Expect, shown
from lessons.measures import Cordoned, Measured
from tests.unit.lessons.seen import observation

NUMBERS = st.floats(-1e9, 1e9)
MAYBE = st.none() | NUMBERS
ANY = st.builds(Bounds, at_least=MAYBE, at_most=MAYBE, above=MAYBE, below=MAYBE, equals=MAYBE)


@given(ANY, st.sampled_from([None, math.nan]))
def test_what_is_unknown_is_within_no_bounds(bounds: Bounds, value: float | None) -> None:
    assert not bounds.hold(value)


@given(ANY, NUMBERS)
def test_all_bounds_hold_or_none_of_them_does(bounds: Bounds, value: float) -> None:
    alone = [
        Bounds(**{name: bound})
        for name in ("at_least", "at_most", "above", "below", "equals")
        if (bound := getattr(bounds, name)) is not None
    ]
    assert bounds.hold(value) == all(each.hold(value) for each in alone)
    assert bounds.given == bool(alone)


@given(NUMBERS, NUMBERS)
def test_a_bound_and_its_opposite_never_agree(bound: float, value: float) -> None:
    assert Bounds(at_least=bound).hold(value) != Bounds(below=bound).hold(value)
    assert Bounds(at_most=bound).hold(value) != Bounds(above=bound).hold(value)


@given(NUMBERS, NUMBERS, st.floats(0, 1e6))
def test_what_is_high_enough_stays_so_when_it_rises(bound: float, value: float, more: float) -> None:
    if Bounds(at_least=bound).hold(value):
        assert Bounds(at_least=bound).hold(value + more)


def test_words_are_only_ever_equal() -> None:
    assert Bounds(equals="w-1").hold("w-1")
    assert not Bounds(equals="w-1").hold("w-2")
    assert not Bounds(at_least=1).hold("w-1")


def test_a_verdict_says_what_is_and_what_should_be() -> None:
    expect = Expect(Measured("x"), Bounds(at_least=0.5, below=0.9), "it is spread", "%")
    assert (
        expect.verdict(observation(measured={"x": 0.25})).reason
        == "is 25 %, should be at least 50 % and less than 90 %"
    )
    assert expect.verdict(observation()).reason == "nothing was measured, should be at least 50 % and less than 90 %"
    good = expect.verdict(observation(measured={"x": 0.6}))
    assert good.holds
    word = Expect(Cordoned("w-1"), Bounds(equals="yes"), "it is cordoned")
    assert word.verdict(observation()).reason == "is no, should be yes"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "s", "–"),
        (0.0435, "s", "43.5 ms"),
        (0.00019, "s", "190 µs"),
        (0.0, "s", "0 ms"),
        (2.7, "s", "2.7 s"),
        (0.295, "%", "30 %"),
        (1.0, "blocks", "1 block"),
        (2400.0, "tokens", "2,400 tokens"),
        (9.58, "×", "9.58-fold"),
        (14.0, "times", "14 ×"),
        ("w-2", "", "w-2"),
        (3.0, "", "3"),
        (141.1e9, "B", "131 GiB"),
        (327680.0, "B", "320 KiB"),
    ],
)
def test_values_as_people_read_them(value: float | str | None, unit: str, text: str) -> None:
    assert shown(value, unit) == text
