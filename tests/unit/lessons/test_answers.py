from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons.answers import Misread, Score, letter, outcome, read_answer
from lessons.checks import Bounds
from lessons.model import Asks, Option, Predict, Words

WORDS = Words(("?",), (), "why")


def predict(asks: Asks, unit: str = "", options: tuple[Option, ...] = (), within: float = 0.25) -> Predict:
    return Predict("p", WORDS, "o", "v", unit, asks, "", options, within)


HALVES = (Option("less", bounds=Bounds(below=10)), Option("more", bounds=Bounds(at_least=10)))


@pytest.mark.parametrize(
    ("step", "text", "answer"),
    [
        (predict("number", "s"), " 0.05 ", 0.05),
        (predict("number", "s"), "21 ms", 0.021),
        (predict("number", "s"), "1,500ms", 1.5),
        (predict("number", "s"), "2 s", 2.0),
        (predict("number", "s"), "150 µs", 0.00015),
        (predict("number", "s"), "150us", 0.00015),
        (predict("number", "%"), "70 %", 0.7),
        (predict("number", "%"), "70", 0.7),
        (predict("number", "×"), "4×", 4.0),
        (predict("number", "times"), "4 x", 4.0),
        (predict("number", "s"), "200 μs", 0.0002),
        (predict("number", "s"), "1.5 seconds", 1.5),
        (predict("number", "B"), "1.5 GB", 1.5e9),
        (predict("number", "B"), "80 GiB", 80 * 2**30),
        (predict("number", "tokens"), "24 Tokens", 24.0),
        (predict("number", "tokens"), "1 token", 1.0),
        (predict("number", "tokens"), "1,200", 1200.0),
        (predict("number", "tokens"), "1,000", 1000.0),
        (predict("number", "tokens"), "1,200,000", 1.2e6),
        (predict("number", "tokens"), "1,200.5", 1200.5),
        (predict("number", "tokens"), "1.200,5", 1200.5),
        (predict("number", "s"), "0,5", 0.5),
        (predict("number", "s"), "0,500", 0.5),
        (predict("number", "s"), ",5", 0.5),
        (predict("number", "s"), "1,25 s", 1.25),
        (predict("number", "s"), "12,5ms", 0.0125),
        (predict("number", "×"), "2,5x", 2.5),
        (predict("number", "%"), "-0,25 %", -0.0025),
        (predict("worker"), "W-2", "w-2"),
        (predict("choice", options=HALVES), " B", "b"),
    ],
)
def test_what_is_typed_is_read(step: Predict, text: str, answer: float | str) -> None:
    assert read_answer(step, text) == pytest.approx(answer)


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (predict("number", "s"), "21 GB"),
        (predict("number", "tokens"), "21 ms"),
        (predict("number"), "21 ms"),
        (predict("number", "s"), "ms"),
        (predict("number", "s"), "1 2"),
    ],
)
def test_a_unit_of_something_else_is_no_answer(step: Predict, text: str) -> None:
    with pytest.raises(Misread, match="is no number"):
        read_answer(step, text)


@pytest.mark.parametrize("text", ["1,2,3", "12,34,567", "1,200,5", "1.2,3.4", "0,500,000", "1.5,000.2", "1,"])
def test_a_number_that_can_be_read_in_several_ways_is_refused_with_a_way_out(text: str) -> None:
    with pytest.raises(Misread, match="can be read in several ways: type it without commas"):
        read_answer(predict("number", "s"), text)


def test_what_is_shown_as_equal_is_right() -> None:
    told = outcome(predict("number", "%"), "70 %", 0.7031)
    assert (told.predicted, told.right, told.score) == ("70 %", "70 %", Score.RIGHT)
    assert outcome(predict("number", "%"), "70 %", 0.71).score is Score.CLOSE


@pytest.mark.parametrize(
    ("typed", "measured", "score"),
    [
        ("0.021", 0.02121, Score.RIGHT),
        ("21 ms", 0.02121, Score.RIGHT),
        ("21ms", 0.0218, Score.CLOSE),
        ("20 ms", 0.02121, Score.CLOSE),
        ("0.02", 0.02121, Score.CLOSE),
        ("0.0212", 0.02121, Score.RIGHT),
        ("0.0213", 0.02121, Score.CLOSE),
    ],
)
def test_what_is_right_as_far_as_it_was_written_is_right(typed: str, measured: float, score: Score) -> None:
    assert outcome(predict("number", "s", within=0.1), typed, measured).score is score


def test_what_is_counted_exactly_is_not_rounded() -> None:
    assert outcome(predict("number", within=0.0), "21", 21.2).score is Score.OFF


@given(st.text(max_size=8), st.sampled_from([predict("number"), predict("worker"), predict("choice", options=HALVES)]))
def test_anything_that_is_typed_is_read_or_refused(text: str, step: Predict) -> None:
    try:
        answer = read_answer(step, text)
    except Misread:
        return
    assert outcome(step, text, answer).score in (Score.RIGHT, Score.OFF)


@given(st.floats(0.01, 1e6), st.floats(-1, 1), st.floats(0.05, 0.9))
def test_a_number_is_close_as_far_as_it_may_be_off(measured: float, off: float, within: float) -> None:
    told = outcome(predict("number", within=within), repr(measured * (1 + off)), measured)
    if abs(off) > within * 1.001:
        assert told.score is Score.OFF
    elif abs(off) < within * 0.999:
        assert told.score in (Score.RIGHT, Score.CLOSE)


@given(st.floats(0, 20))
def test_what_is_right_of_a_choice_is_measured(measured: float) -> None:
    told = [outcome(predict("choice", options=HALVES), letter(index), measured) for index in range(2)]
    assert [each.score is Score.RIGHT for each in told] == [measured < 10, measured >= 10]
    assert {each.right for each in told} == {"a) less" if measured < 10 else "b) more"}


def test_without_a_measurement_nothing_is_right_or_wrong() -> None:
    told = outcome(predict("worker"), "w-1", None)
    assert (told.score, told.right) == (Score.UNKNOWN, "")
