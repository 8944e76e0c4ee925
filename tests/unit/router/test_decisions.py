"""The decisions that a router keeps: which, how many, what is told of them, and the same ones under other weights."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from control_plane.contracts.decision import (
    CANDIDATES_KEPT,
    DECISIONS_KEPT,
    DecisionAnswer,
    DecisionQuestion,
    DecisionView,
)
from control_plane.contracts.routing import BUILT_IN, SCORERS, RoutingProfile
from control_plane.contracts.v1 import decision_pb2 as pb
from control_plane.contracts.wire.convert import from_wire, to_wire
from control_plane.router.decisions import Decisions, answering, decision_view
from control_plane.router.figures import RouterFigures
from control_plane.router.scheduling.candidate import Ask, Candidate
from control_plane.router.scheduling.filters import USABLE
from control_plane.router.scheduling.kept import Attempt, best
from control_plane.router.scheduling.profile import SCORERS as MADE
from control_plane.router.scheduling.profile import Profile, build
from control_plane.router.scheduling.reasons import reason_words

NOW = 100.0
ASK = Ask("m", 10, 20, 20.0)


def candidate(name: str, **fields: object) -> Candidate:
    values = {"ready": True, "connected": True, "sampled_mono": NOW - 1, "capacity_tokens": 1000} | fields
    return Candidate(name, f"{name}-i", "m", **values)  # type: ignore[arg-type]


def profile(name: str = "balanced", seed: int = 0) -> Profile:
    return build(name, BUILT_IN[name], Random(seed))


def decide(
    decisions: Decisions,
    candidates: list[Candidate],
    by: Profile | None = None,
    request_id: str = "r",
    attempt: int = 1,
) -> str:
    """Who was picked, "" if nobody; the decision is kept."""
    by = by or profile()
    decision = by.decide(ASK, candidates, NOW)
    looks = decisions.looks(request_id)
    decisions.keep(Attempt(request_id, attempt, 1e9, 0.5, looks), by, ASK, decision, NOW)
    return decision.chosen.worker_id if decision.chosen else ""


def view(decisions: Decisions) -> DecisionView:
    return decision_view(decisions.last, "g1")


def asked(decisions: Decisions, **question: object) -> DecisionAnswer:
    return answering(decisions, "g1", DecisionQuestion(1, **question))()  # type: ignore[arg-type]


def under(decisions: Decisions, routing: RoutingProfile) -> DecisionAnswer:
    return asked(decisions, again=routing)


CANDIDATES = st.lists(
    st.builds(
        candidate,
        st.uuids().map(str),
        ready=st.booleans(),
        tokens=st.floats(0, 1e5),
        waiting=st.integers(0, 9),
        kv_usage=st.floats(0, 1),
        others=st.integers(0, 9),
        sampled_mono=st.sampled_from([0.0, NOW - 50, NOW - 1]),
    ),
    max_size=8,
)
PROFILES = st.builds(
    RoutingProfile,
    st.dictionaries(st.sampled_from(SCORERS), st.floats(0.1, 10), min_size=1),
    st.sampled_from(["max", "softmax", "round_robin"]),
    st.just(0.1),
)


def test_a_decision_stays_as_it_was_when_the_loads_go_on() -> None:
    decisions, idle = Decisions(), candidate("idle")
    busy = candidate("busy", tokens=500.0, requests=3, waiting=2, kv_usage=0.5)
    decide(decisions, [busy, idle, candidate("off", cordoned=True)])
    busy.tokens, busy.requests, idle.tokens = 0.0, 0, 900.0
    told = view(decisions)
    assert (told.chosen, told.profile, told.by) == ("idle", "balanced", BUILT_IN["balanced"])
    assert told.scorers == ("inflight_tokens", "queue_depth", "kv_headroom")
    best, second = told.candidates
    assert (best.worker_id, best.total, second.worker_id) == ("idle", 1.0, "busy")
    assert second.inputs["tokens"] == 500.0
    assert (second.inputs["requests"], second.inputs["waiting"], second.inputs["kv_usage"]) == (3, 2, 0.5)
    assert (second.sample_age_s, second.stale) == (1.0, False)
    assert second.scores == pytest.approx((1000 / 1500, 1 / 3, 0.5))
    assert second.total == pytest.approx((2 * 1000 / 1500 + 1 / 3 + 0.5) / 4)
    assert [(each.worker_id, each.reason) for each in told.rejected] == [("off", "cordoned")]
    assert "operator" in told.rejected[0].words
    assert told.expected_tokens == 20.0


def test_what_was_never_told_is_not_zero() -> None:
    decisions = Decisions()
    decide(decisions, [candidate("new", sampled_mono=0.0)])
    (only,) = view(decisions).candidates
    assert only.sample_age_s is None
    assert only.stale


@pytest.mark.parametrize("picker", ["max", "round_robin", "softmax"])
def test_of_many_candidates_the_best_are_kept_and_who_was_picked_always(picker: str) -> None:
    decisions = Decisions()
    many = [candidate(f"w{index:03}", tokens=float(index)) for index in range(300, 0, -1)]
    many += [candidate(f"out{index:03}", cordoned=True) for index in range(200)]
    routing = RoutingProfile({"inflight_tokens": 1.0}, picker, 0.5)
    for seed in range(5):
        chosen = decide(decisions, many, build("p", routing, Random(seed)))
        told = view(decisions)
        assert len(told.candidates) == CANDIDATES_KEPT == len(told.rejected)
        assert told.more_candidates == 300 - CANDIDATES_KEPT
        assert told.rejected_by == {"cordoned": 200}
        assert told.candidates[0].worker_id == "w001"
        assert told.picked is not None
        assert told.picked.worker_id == chosen
        totals = [each.total for each in told.candidates[:-1]]
        assert totals == sorted(totals, reverse=True)
        few = decision_view(decisions.last, "g1", 8)
        assert len(few.candidates) in (8, 9)
        assert few.picked == told.picked
        assert few.more_candidates == 300 - len(few.candidates)


@given(st.lists(st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0]), max_size=120), st.integers(1, 20))
def test_the_best_are_the_best_however_many_there_are(totals: list[float], most: int) -> None:
    assert best(totals, most) == sorted(range(len(totals)), key=lambda index: (-totals[index], index))[:most]


@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=60), st.integers(1, 9))
def test_the_ring_is_the_last_ones_and_is_found_by_request(steps: list[tuple[int, bool]], kept: int) -> None:
    decisions, there = Decisions(), candidate("w")
    placed: list[tuple[int, str]] = []
    waiting: dict[str, int] = {}
    numbers = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("control_plane.router.decisions.DECISIONS_KEPT", kept)
        for who, finds in steps:
            name, numbers = f"r{who}", numbers + 1
            there.cordoned = not finds
            looks = decisions.looks(name)
            assert bool(looks) is (name in waiting)
            assert bool(decide(decisions, [there], request_id=name)) is finds
            before = waiting.pop(name, None)
            if finds:
                placed += [(before, name)] if before is not None else []
                placed.append((numbers, name))
            else:
                waiting[name] = numbers
                if len(waiting) > kept:
                    del waiting[next(iter(waiting))]
            placed = placed[-kept:]
            assert [(each.number, each.attempt.request_id) for each in decisions._ring] == placed
            for other in {f"r{index}" for index in range(9)}:
                mine = [number for number, owner in placed if owner == other]
                mine += [waiting[other]] if other in waiting else []
                assert [each.number for each in decisions.of(other)] == mine
        everything = sorted([number for number, _ in placed] + list(waiting.values()))
        for after in (0, numbers // 2, numbers + 5):
            from_there = after if after <= numbers else 0
            wanted = [number for number in everything if number > from_there][-kept:]
            assert [each.number for each in decisions.newest(kept, after)] == wanted


def test_memory_is_bounded() -> None:
    decisions, there = Decisions(), candidate("w")
    for index in range(DECISIONS_KEPT + 50):
        decide(decisions, [there], request_id=f"r{index}")
    for index in range(DECISIONS_KEPT + 50):
        decide(decisions, [], request_id=f"w{index}")
    assert len(decisions) == DECISIONS_KEPT
    assert decisions.of("r0") == []
    assert decisions.of("w0") == []
    assert len(decisions._of) == len(decisions._waiting) == DECISIONS_KEPT


@given(CANDIDATES, st.integers(0, 3), PROFILES)
def test_every_decision_goes_over_the_wire_whole(
    candidates: list[Candidate], seed: int, routing: RoutingProfile
) -> None:
    decisions = Decisions()
    for number in range(2):
        decide(decisions, candidates, build("p", routing, Random(seed)), request_id=f"r{number}")
    answer = asked(decisions)
    assert from_wire(to_wire(answer, pb.DecisionAnswer), DecisionAnswer) == answer
    for told in answer.decisions:
        assert {each.worker_id for each in told.candidates} | {each.worker_id for each in told.rejected} == {
            each.worker_id for each in candidates
        }
        assert all(each.words for each in told.rejected)
        if told.by.picker == "softmax" and told.candidates:
            assert sum(each.chance for each in told.candidates) == pytest.approx(1.0)
    again = under(decisions, routing)
    assert from_wire(to_wire(again, pb.DecisionAnswer), DecisionAnswer) == again


@given(st.lists(CANDIDATES, max_size=6), PROFILES.filter(lambda routing: routing.picker == "max"), st.integers(0, 3))
def test_under_the_same_profile_nothing_goes_elsewhere(
    rounds: list[list[Candidate]], routing: RoutingProfile, seed: int
) -> None:
    decisions, by = Decisions(), build("p", routing, Random(seed))
    went = Counter(decide(decisions, candidates, by) for candidates in rounds)
    del went[""]
    rescored = under(decisions, routing).rescored
    assert rescored is not None
    assert (rescored.decisions, rescored.elsewhere, rescored.moved) == (went.total(), 0, ())
    assert {name: share.requests for name, share in rescored.workers.items()} == went
    assert all(share.requests == share.requests_again for share in rescored.workers.values())


@given(st.lists(CANDIDATES, max_size=6), PROFILES, PROFILES, st.integers(0, 3))
def test_again_everything_goes_somewhere_once(
    rounds: list[list[Candidate]], one: RoutingProfile, other: RoutingProfile, seed: int
) -> None:
    decisions, by = Decisions(), build("p", one, Random(seed))
    went = [decide(decisions, candidates, by, request_id=f"r{n}") for n, candidates in enumerate(rounds)]
    placed = sum(1 for name in went if name)
    rescored = under(decisions, other).rescored
    assert rescored is not None
    shares = rescored.workers.values()
    assert sum(share.requests for share in shares) == placed
    assert sum(share.requests_again for share in shares) == pytest.approx(placed)
    assert sum(share.tokens_again for share in shares) == pytest.approx(20.0 * placed)
    assert -1e-9 <= rescored.elsewhere <= placed + 1e-9
    assert all(each.was != each.would for each in rescored.moved)


def test_other_weights_send_it_elsewhere_with_the_loads_as_they_were() -> None:
    decisions = Decisions()
    queued = candidate("queued", waiting=4)
    loaded = candidate("loaded", tokens=800.0)
    assert decide(decisions, [queued, loaded], profile("least_load")) == "queued"
    queued.waiting = 0
    rescored = under(decisions, RoutingProfile({"queue_depth": 1.0})).rescored
    assert rescored is not None
    (moved,) = rescored.moved
    assert (moved.was, moved.would, moved.was_total, moved.would_total) == ("queued", "loaded", 0.2, 1.0)
    assert (rescored.elsewhere, rescored.partial) == (1, 0)
    assert rescored.workers["loaded"].requests_again == 1
    assert rescored.workers["queued"].tokens == 20.0


def test_the_last_so_many_that_went_somewhere_are_scored_again() -> None:
    decisions = Decisions()
    for number in range(5):
        decide(decisions, [candidate("w")], request_id=f"r{number}")
        decide(decisions, [], request_id=f"w{number}")
    for last, count in ((3, 3), (5, 5), (0, 5), (9, 5)):
        rescored = asked(decisions, last=last, again=BUILT_IN["balanced"]).rescored
        assert rescored is not None
        assert rescored.decisions == count
    assert [each.request_id for each in asked(decisions, last=3).decisions] == ["w3", "r4", "w4"]


def test_round_robin_again_takes_turns() -> None:
    decisions = Decisions()
    for number in range(6):
        decide(
            decisions, [candidate("a"), candidate("b", tokens=5.0), candidate("c", tokens=9.0)], request_id=f"{number}"
        )
    rescored = under(decisions, BUILT_IN["round_robin"]).rescored
    assert rescored is not None
    assert {name: share.requests_again for name, share in rescored.workers.items()} == {"a": 2, "b": 2, "c": 2}
    assert rescored.elsewhere == 4


def test_where_not_all_candidates_were_kept_it_is_said() -> None:
    decisions = Decisions()
    decide(decisions, [candidate(f"w{n}", tokens=float(n)) for n in range(CANDIDATES_KEPT + 1)])
    rescored = under(decisions, RoutingProfile({"kv_headroom": 1.0})).rescored
    assert rescored is not None
    assert rescored.partial == 1


def test_a_scorer_of_another_version_is_an_answer_that_says_so() -> None:
    assert "clairvoyance" in under(Decisions(), RoutingProfile({"clairvoyance": 1.0})).error


def test_every_scorer_that_can_be_named_is_made_and_has_that_name() -> None:
    assert tuple(MADE) == SCORERS
    assert [make().name for make in MADE.values()] == list(SCORERS)


def test_every_filter_has_words() -> None:
    for rule in USABLE:
        out = candidate("w", refusing_until=NOW + 0.25, max_context=5, max_sequences=2, sequences=4, others=1)
        words = reason_words(rule.name, ASK, out, NOW)
        assert words not in ("", rule.name.replace("_", " "))
    assert "0.25 s" in reason_words("cooling_down", ASK, out, NOW)
    assert "20 tokens" in reason_words("too_long", ASK, out, NOW)
    assert reason_words("of_a_later_version", ASK, out, NOW) == "of a later version"


def test_what_is_counted_can_be_read() -> None:
    decisions, registry = Decisions(), CollectorRegistry()
    registry.register(RouterFigures(decisions))
    there, off = candidate("w"), candidate("off", cordoned=True)
    for number in range(3):
        decide(decisions, [there, off], request_id=f"r{number}")
    for _ in range(5):
        decide(decisions, [off], request_id="waits")
    text = generate_latest(registry).decode()
    assert 'inferdeck_router_decisions_total{model="m",profile="balanced",worker="w"} 3.0' in text
    assert 'inferdeck_router_endpoints_left_out_total{model="m",reason="cordoned"} 4.0' in text
