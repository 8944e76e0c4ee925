from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons import measures as m
from lessons.conversation import ItemSeen, TurnSeen, turns_for, turns_of
from lessons.observation import Value
from tests.unit.lessons.seen import call, observation


def said(turn: str, asked: str, answer: str, status: str = "completed") -> list[ItemSeen]:
    return [
        ItemSeen("user", asked, "completed", turn, status),
        ItemSeen("assistant", answer, status if status in ("completed", "in_progress") else "incomplete", turn, status),
    ]


ITEMS = (
    ItemSeen("system", "added by hand", "completed"),
    *said("t0", "again", "of another step"),
    *said("t1", "one", "a whole answer"),
    *said("t2", "two", "half an", "failed"),
    *said("t3", "again", "and again"),
    *said("t4", "less", "had m"),
    *said("t5", "empty", "", "cancelled"),
    *said("t6", "more", "had more", "cancelled"),
    *said("t7", "other", "quite another"),
    *said("t8", "none", "", "failed"),
)
SEEN = observation(
    conversations={"talk": ITEMS, "elsewhere": tuple(said("t1", "one", "two conversations"))},
    calls=(
        call("plain", asked="one", heard="a whole answer"),
        call("whole", conversation="talk", asked="one", heard="a whole answer"),
        call("cut", ok=False, conversation="talk", asked="two", heard="half an"),
        call("whole", conversation="talk", asked="again", heard="and again"),
        call("less", conversation="talk", asked="less", heard="had more"),
        call("empty", ok=False, conversation="talk", asked="empty", heard="something"),
        call("more", ok=False, conversation="talk", asked="more", heard="had"),
        call("other", conversation="talk", asked="other", heard="this one"),
        call("lost", conversation="talk", asked="not there", heard="an answer"),
        call("cut", ok=False, conversation="talk", asked="none", heard=""),
        call("far", conversation="elsewhere", asked="one", heard="two conversations"),
    ),
)

CASES: list[tuple[m.Measure, Value | None]] = [
    (m.Kept(), 3.0),
    (m.Kept("whole"), 2.0),
    (m.Kept("far"), 1.0),
    (m.Kept("cut"), 0.0),
    (m.Kept("cut", "cut"), 2.0),
    (m.Kept("", "lost"), 5.0),
    (m.Kept("plain"), None),
    (m.TurnEnded("whole"), "completed"),
    (m.TurnEnded("cut"), "failed"),
    (m.TurnEnded("lost"), "no turn"),
    (m.TurnEnded(), "several"),
    (m.TurnEnded("plain"), None),
    (m.KeptText("whole"), "the same"),
    (m.KeptText("cut"), "the same"),
    (m.KeptText("less"), "less"),
    (m.KeptText("empty"), "nothing"),
    (m.KeptText("more"), "more"),
    (m.KeptText("other"), "other"),
    (m.KeptText("lost"), "no turn"),
    (m.KeptText(), "several"),
    (m.KeptText("plain"), None),
]


@pytest.mark.parametrize(("measure", "value"), CASES)
def test_what_each_measure_says(measure: m.Measure, value: Value | None) -> None:
    assert measure.read(SEEN) == value


def test_the_question_of_a_turn_is_its_last_message_and_what_no_call_brought_is_no_turn() -> None:
    items = [
        ItemSeen("assistant", "added by hand", "completed"),
        ItemSeen("system", "be brief", "completed", "t1", "completed"),
        ItemSeen("user", "hi", "completed", "t1", "completed"),
        ItemSeen("user", "still asked", "completed", "t2", "in_progress"),
        ItemSeen("assistant", "hello", "completed", "t1", "completed"),
    ]
    assert turns_of(items) == [TurnSeen("t1", "hi", "hello", "completed")]


TEXTS = st.lists(st.sampled_from("abc"), max_size=8)


@given(TEXTS, TEXTS)
def test_no_turn_is_of_two_questions_and_the_last_ones_belong_together(asked: list[str], kept: list[str]) -> None:
    turns = [TurnSeen(str(number), text, "", "completed") for number, text in enumerate(kept)]
    found = turns_for(asked, turns)
    assert len(found) == len(asked)
    given_ = [turn for turn in found if turn is not None]
    assert len({turn.id for turn in given_}) == len(given_)
    for text in "abc":
        mine = [turn for question, turn in zip(asked, found, strict=True) if question == text]
        ids = [turn.id for turn in mine if turn is not None]
        there = [turn.id for turn in turns if turn.asked == text]
        assert ids == there[len(there) - len(ids) :]
        assert len(ids) == min(len(mine), len(there))
        assert all(turn is None for turn in mine[: len(mine) - len(ids)])
