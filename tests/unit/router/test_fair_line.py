from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.contracts.admission import Service
from control_plane.router.fair_line import FairLine

SERVICES = {name: Service(name) for name in ("gold", "silver", "bronze")}
PRIORITY = {"gold": -10, "silver": 0, "bronze": 10}


@dataclass(eq=False)
class Person:
    seq: int
    tier: str = "silver"
    flow: str = "f"
    cost: float = 10.0
    admitted: bool = False
    model: str = "m"
    deadline: float = 10.0
    service: Service = field(default_factory=Service)
    priority: int = 0

    def __post_init__(self) -> None:
        if self.service == Service():
            self.service = SERVICES[self.tier]
            self.priority = PRIORITY[self.tier]


def anyone(service: Service, owed: bool) -> bool:
    return True


def serve(line: FairLine[Person], *, skip: set[int] | None = None) -> Person | None:
    person = line.first(anyone, skip or set())
    if person is not None:
        line.remove(person)
        line.sent(person, person.cost, waited=True)
    return person


def served(line: FairLine[Person]) -> list[int]:
    return [person.seq for person in iter(lambda: serve(line), None)]


def test_by_priority_then_first_come_first_served() -> None:
    line: FairLine[Person] = FairLine()
    for seq, tier in enumerate(("bronze", "silver", "gold", "silver", "gold", "bronze")):
        line.add(Person(seq, tier))
    assert served(line) == [2, 4, 1, 3, 0, 5]


def test_who_comes_back_is_before_all_others_in_the_order_of_arrival() -> None:
    line: FairLine[Person] = FairLine()
    for seq, tier, admitted in ((5, "gold", False), (4, "bronze", True), (2, "silver", True)):
        line.add(Person(seq, tier, admitted=admitted))
    assert served(line) == [2, 4, 5]


def test_who_is_before_one_that_joins() -> None:
    line: FairLine[Person] = FairLine()
    people = [Person(seq, tier) for seq, tier in enumerate(("bronze", "silver", "gold", "silver", "gold"))]
    places = []
    for person in people:
        line.add(person)
        places.append(line.ahead_of(person))
    assert places == [0, 0, 0, 2, 1]
    assert [line.ahead_of(person) for person in people] == [4, 2, 0, 3, 1]
    back = Person(5, "bronze", admitted=True)
    line.add(back)
    assert line.ahead_of(back) == 0
    assert line.ahead_of(people[2]) == 1, "who came back is before everybody"
    other = Person(6, "silver", flow="other")
    line.add(other)
    assert line.ahead_of(other) == 5, "back, two of gold, two of silver"


def test_tenants_of_a_tier_take_turns_however_much_one_of_them_sends() -> None:
    line: FairLine[Person] = FairLine()
    for seq in range(100):
        line.add(Person(seq, flow="floods"))
    for seq in range(100, 103):
        line.add(Person(seq, flow="asks"))
    first = [serve(line) for _ in range(6)]
    assert [person.flow for person in first if person] == ["floods", "asks"] * 3


def test_a_turn_is_measured_in_tokens_not_in_calls() -> None:
    line: FairLine[Person] = FairLine()
    for seq in range(40):
        line.add(Person(seq, flow="long", cost=90.0))
        line.add(Person(100 + seq, flow="short", cost=10.0))
    count = Counter(person.flow for _ in range(40) if (person := serve(line)))
    assert count["short"] == pytest.approx(9 * count["long"], abs=9)


def test_what_a_call_really_used_is_put_right_at_its_end() -> None:
    line: FairLine[Person] = FairLine()
    people = [Person(seq, flow=flow) for seq, flow in enumerate(("talks", "listens") * 10)]
    for person in people:
        line.add(person)
    first = serve(line)
    assert first is not None
    line.ended(first, 60.0)  # five turns more than it was taken for
    line.ended(first, 600.0)
    turns = [serve(line) for _ in range(7)]
    assert [person.flow for person in turns if person] == ["listens"] * 6 + ["talks"]


def test_tiers_of_one_priority_share_by_their_weights() -> None:
    line: FairLine[Person] = FairLine()
    heavy, light = Service("heavy", weight=3), Service("light", weight=1)
    for seq in range(200):
        line.add(Person(2 * seq, service=heavy))
        line.add(Person(2 * seq + 1, service=light))
    count = Counter(person.service.tier for _ in range(80) if (person := serve(line)))
    assert count["heavy"] == pytest.approx(60, abs=1)


def test_who_may_not_go_and_who_cannot_be_sent_do_not_hold_up_the_others() -> None:
    line: FairLine[Person] = FairLine()
    for seq, tier in enumerate(("gold", "gold", "silver", "bronze")):
        line.add(Person(seq, tier))

    def not_silver(service: Service, owed: bool) -> bool:
        return service.tier != "silver"

    assert (person := line.first(anyone, {0})) is not None
    assert person.seq == 1
    assert (person := line.first(not_silver, {0, 1})) is not None
    assert person.seq == 3
    assert line.first(not_silver, {0, 1, 3}) is None


COSTS = st.integers(1, 100)


@settings(deadline=None)
@given(
    st.floats(0.01, 0.3),
    st.floats(0.01, 0.3),
    st.lists(COSTS, min_size=1, max_size=20),
    st.lists(st.booleans(), min_size=20, max_size=150),
)
def test_over_any_contention_a_tier_gets_its_minimum_share(
    low: float, lowest: float, costs: list[int], turns: list[bool]
) -> None:
    """The first tier goes past the line, as where workers are busy, or waits; the two others always wait, and are last
    by priority."""
    line: FairLine[Person] = FairLine()
    tiers = {
        "first": (Service("first"), -10),
        "low": (Service("low", min_share=low), 0),
        "lowest": (Service("lowest", min_share=lowest), 10),
    }
    numbers, cost = itertools.count(), itertools.cycle(costs)
    waiting: Counter[str] = Counter()
    got: Counter[str] = Counter()

    def make(tier: str) -> Person:
        service, priority = tiers[tier]
        return Person(next(numbers), cost=float(next(cost)), service=service, priority=priority)

    def join(*names: str) -> None:
        for tier in names:
            while waiting[tier] < 2:
                line.add(make(tier))
                waiting[tier] += 1

    def owed_only(service: Service, owed: bool) -> bool:
        return owed

    for past in turns:
        join("first", "low", "lowest")
        may_go = owed_only
        while True:
            person = line.first(may_go)
            if person is None and (past or may_go is anyone):
                break
            if person is None:
                may_go = anyone
                continue
            line.remove(person)
            line.sent(person, person.cost, waited=True)
            got[person.service.tier] += int(person.cost)
            waiting[person.service.tier] -= 1
            join("first", "low", "lowest")
            if may_go is anyone:
                break
        if past:
            direct = make("first")
            line.sent(direct, direct.cost, waited=False)
            got["first"] += int(direct.cost)
        for tier, share in (("low", low), ("lowest", lowest)):
            # Late by a call of its own, one of the other, and one that went past the line.
            assert got[tier] >= share * got.total() - 300, (tier, share, got)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), COSTS), min_size=1, max_size=120),
    st.integers(0, 120),
)
def test_while_they_wait_no_tenant_is_ahead_of_another_by_more_than_two_calls(
    arrivals: list[tuple[str, int]], turns: int
) -> None:
    line: FairLine[Person] = FairLine()
    left: Counter[str] = Counter()
    for seq, (flow, cost) in enumerate(arrivals):
        line.add(Person(seq, flow=flow, cost=float(cost)))
        left[flow] += 1
    got: Counter[str] = Counter()
    for _ in range(turns):
        if any(not left[flow] for flow in {flow for flow, _ in arrivals}):
            break
        person = serve(line)
        assert person is not None
        got[person.flow] += int(person.cost)
        left[person.flow] -= 1
        amounts = [got[flow] for flow in {flow for flow, _ in arrivals}]
        assert max(amounts) - min(amounts) <= 200


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 30),
            st.sampled_from(["gold", "silver", "bronze"]),
            st.sampled_from("xyz"),
            st.booleans(),
        ),
        max_size=80,
    )
)
def test_nobody_is_lost_and_nobody_is_served_twice(moves: list[tuple[int, str, str, bool]]) -> None:
    line: FairLine[Person] = FairLine()
    there: dict[int, Person] = {}
    for seq, tier, flow, admitted in moves:
        if seq in there:
            line.remove(there.pop(seq))
        else:
            there[seq] = Person(seq, tier, flow, admitted=admitted)
            line.add(there[seq])
    assert {person.seq for person in line} == set(there)
    order = [there[seq] for seq in served(line)]
    assert len(order) == len(there)
    assert len(set(map(id, order))) == len(order)
    ranks = [(not person.admitted, 0 if person.admitted else person.priority) for person in order]
    assert ranks == sorted(ranks)
    for tier, flow in {(person.tier, person.flow) for person in order}:
        own = [p.seq for p in order if (p.tier, p.flow, p.admitted) == (tier, flow, False)]
        assert own == sorted(own)
