from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from control_plane.router.waiting import Waiting


@dataclass
class Person:
    seq: int
    model: str = "m"
    deadline: float = 10.0


def seqs(waiting: Waiting[Person], model: str = "m") -> list[int]:
    return [person.seq for person in waiting.line(model)]


def test_one_that_comes_back_takes_its_old_place() -> None:
    waiting: Waiting[Person] = Waiting(10)
    for seq in (2, 5, 3):
        waiting.add(Person(seq))
    assert seqs(waiting) == [2, 3, 5]


def test_lines_are_apart_and_the_bound_is_for_all() -> None:
    waiting: Waiting[Person] = Waiting(2)
    waiting.add(Person(1, "a"))
    assert waiting.has_room
    waiting.add(Person(2, "b"))
    assert not waiting.has_room
    assert waiting.models() == ("a", "b")
    waiting.remove(waiting.line("a")[0])
    assert waiting.models() == ("b",)
    assert waiting.has_room


def test_leaving_from_the_middle_leaves_the_others() -> None:
    waiting: Waiting[Person] = Waiting(10)
    people = [Person(seq) for seq in range(5)]
    for person in people:
        waiting.add(person)
    assert waiting.remove(people[2])
    assert not waiting.remove(people[2])
    assert seqs(waiting) == [0, 1, 3, 4]
    assert people[2] not in waiting
    assert people[3] in waiting


def test_those_whose_time_is_up_come_out_earliest_first() -> None:
    waiting: Waiting[Person] = Waiting(10)
    for seq, deadline in ((1, 7.0), (2, 5.0), (3, 9.0)):
        waiting.add(Person(seq, deadline=deadline))
    assert waiting.next_deadline() == 5.0
    assert [person.seq for person in waiting.expired(8.0)] == [2, 1]
    assert seqs(waiting) == [3]
    assert waiting.next_deadline() == 9.0


def test_a_new_deadline_counts_when_one_comes_back() -> None:
    waiting: Waiting[Person] = Waiting(10)
    person = Person(1, deadline=5.0)
    waiting.add(person)
    waiting.remove(person)
    person.deadline = 50.0
    waiting.add(person)
    assert waiting.expired(6.0) == []
    assert waiting.next_deadline() == 50.0


@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from("ab"), st.integers(0, 20)), max_size=60), st.integers(0, 20)
)
def test_nobody_is_lost_and_nobody_is_there_twice(moves: list[tuple[int, str, int]], now: int) -> None:
    waiting: Waiting[Person] = Waiting(1000)
    there: dict[int, Person] = {}
    for seq, model, deadline in moves:
        if seq in there:
            assert waiting.remove(there.pop(seq))
        else:
            there[seq] = Person(seq, model, float(deadline))
            waiting.add(there[seq])
    gone = {person.seq for person in waiting.expired(float(now))}
    assert gone == {seq for seq, person in there.items() if person.deadline <= now}
    stays = sorted(set(there) - gone)
    assert sorted(seqs(waiting, "a") + seqs(waiting, "b")) == stays
    assert seqs(waiting, "a") == [seq for seq in stays if there[seq].model == "a"]
    assert len(waiting) == len(stays)
