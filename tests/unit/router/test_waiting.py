from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.admission import AdmissionRules, Service
from control_plane.router.waiting import Waiting
from tests.unit.router.test_fair_line import Person


def person(
    seq: int, model: str = "m", deadline: float = 10.0, tier: str = "silver", *, admitted: bool = False
) -> Person:
    return Person(seq, tier, model=model, deadline=deadline, admitted=admitted)


def anyone(service: Service, owed: bool) -> bool:
    return True


def seqs(waiting: Waiting[Person], model: str = "m") -> list[int]:
    return [waiter.seq for waiter in waiting.line(model)]


def test_lines_are_apart_and_the_bound_is_for_all() -> None:
    waiting: Waiting[Person] = Waiting()
    rules = AdmissionRules(queue_limit=2)
    waiting.add(person(1, "a"))
    assert waiting.has_room(rules)
    waiting.add(person(2, "b"))
    assert not waiting.has_room(rules)
    assert waiting.models() == ("a", "b")
    waiting.remove(waiting.line("a")[0])
    assert waiting.models() == ("b",)
    assert waiting.has_room(rules)


def test_those_of_each_tier_are_counted() -> None:
    waiting: Waiting[Person] = Waiting()
    people = [person(1, "a", tier="gold"), person(2, "b", tier="gold"), person(3, "b")]
    for waiter in people:
        waiting.add(waiter)
    assert waiting.by_tier() == {("a", "gold"): 1, ("b", "gold"): 1, ("b", "silver"): 1}
    assert (waiting.of_tier("gold"), waiting.of_tier("bronze")) == (2, 0)
    waiting.sent(people[0], 5.0)
    assert waiting.by_tier() == {("b", "gold"): 1, ("b", "silver"): 1}


def test_the_youngest_of_the_lowest_priority_leaves_a_full_queue() -> None:
    waiting: Waiting[Person] = Waiting()
    for waiter in (
        person(1, tier="bronze"),
        person(2, tier="bronze"),
        person(3),
        person(4, tier="bronze", admitted=True),
    ):
        waiting.add(waiter)
    least = waiting.less_important(person(9, tier="gold"))
    assert least is not None
    assert least.seq == 2
    assert waiting.less_important(person(9, tier="bronze")) is None, "not for one of the same priority"


def test_leaving_from_the_middle_leaves_the_others() -> None:
    waiting: Waiting[Person] = Waiting()
    people = [person(seq) for seq in range(5)]
    for waiter in people:
        waiting.add(waiter)
    assert waiting.remove(people[2])
    assert not waiting.remove(people[2])
    assert seqs(waiting) == [0, 1, 3, 4]
    assert people[2] not in waiting
    assert people[3] in waiting


def test_those_whose_time_is_up_come_out_earliest_first() -> None:
    waiting: Waiting[Person] = Waiting()
    for seq, deadline in ((1, 7.0), (2, 5.0), (3, 9.0)):
        waiting.add(person(seq, deadline=deadline))
    assert waiting.next_deadline() == 5.0
    assert [waiter.seq for waiter in waiting.expired(8.0)] == [2, 1]
    assert seqs(waiting) == [3]
    assert waiting.next_deadline() == 9.0


def test_a_new_deadline_counts_when_one_comes_back() -> None:
    waiting: Waiting[Person] = Waiting()
    waiter = person(1, deadline=5.0)
    waiting.add(waiter)
    waiting.remove(waiter)
    waiter.deadline = 50.0
    waiting.add(waiter)
    assert waiting.expired(6.0) == []
    assert waiting.next_deadline() == 50.0


def test_what_was_used_before_anybody_waited_is_held_against_nobody() -> None:
    waiting: Waiting[Person] = Waiting()
    early = Person(1, flow="early")
    waiting.sent(early, 10_000.0)
    for waiter in (Person(2, flow="early"), Person(3, flow="late")):
        waiting.add(waiter)
    waiting.ended(early, 99_999.0)
    assert (first := waiting.first("m", anyone)) is not None
    assert first.seq == 2


@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from("ab"), st.integers(0, 20)), max_size=60), st.integers(0, 20)
)
def test_nobody_is_lost_and_nobody_is_there_twice(moves: list[tuple[int, str, int]], now: int) -> None:
    waiting: Waiting[Person] = Waiting()
    there: dict[int, Person] = {}
    for seq, model, deadline in moves:
        if seq in there:
            assert waiting.remove(there.pop(seq))
        else:
            there[seq] = person(seq, model, float(deadline))
            waiting.add(there[seq])
    gone = {waiter.seq for waiter in waiting.expired(float(now))}
    assert gone == {seq for seq, waiter in there.items() if waiter.deadline <= now}
    stays = sorted(set(there) - gone)
    assert sorted(seqs(waiting, "a") + seqs(waiting, "b")) == stays
    assert seqs(waiting, "a") == [seq for seq in stays if there[seq].model == "a"]
    assert len(waiting) == len(stays)
    assert sum(waiting.by_tier().values()) == len(stays)
