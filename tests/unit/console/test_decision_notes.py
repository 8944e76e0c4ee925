"""Decisions in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.decision_notes import rule_words, waited_words, why, why_not, why_rejected
from control_plane.contracts.decision import CandidateView, DecisionView, RejectedView
from control_plane.contracts.routing import RoutingProfile
from tests.decisions import candidate, decision, waited

SOFTMAX = RoutingProfile({"inflight_tokens": 2.0, "queue_depth": 1.0, "kv_headroom": 1.0}, "softmax", 0.1)
ROUND_ROBIN = RoutingProfile({"inflight_tokens": 1.0}, "round_robin")


def with_second(second: CandidateView, **changes: object) -> DecisionView:
    return replace(decision(**changes), candidates=(decision().candidates[0], second))


def test_why_there() -> None:
    made = decision()
    assert why(made) == "best of 2: total 0.850, then smollm2-2 with 0.510"
    assert why(replace(made, candidates=made.candidates[:1])) == "the only one that could take it"
    assert why(replace(made, by=ROUND_ROBIN)) == "its turn among 2"
    assert why(with_second(candidate("smollm2-2"))) == "drawn among 2 that were as good: total 0.850"
    drawn = replace(made, by=SOFTMAX, candidates=(candidate("smollm2-1", chance=0.62), made.candidates[1]))
    assert why(drawn) == "drawn among 2, with a chance of 62%: total 0.850"
    assert why(replace(made, more_candidates=70)).startswith("best of 72")


def test_why_nowhere() -> None:
    assert why(waited(rejected_by={"full": 2, "not_ready": 1})) == "no worker could take it: 2 full, 1 not ready"
    assert why(waited(rejected_by={})) == "there was no worker of this model"
    assert waited_words(waited()) == "looked 3 times, last after 400 ms"
    assert waited_words(decision()) == ""


def test_why_not_another() -> None:
    made = decision()
    first, second = made.candidates
    assert why_not(made, first) == ""
    assert why_not(made, second) == (
        "total 0.510 against 0.850: more waiting in its engine, 3 against 0 and more tokens in flight, 812 against 310"
    )
    assert why_not(replace(made, by=ROUND_ROBIN), second) == "it was not its turn"
    assert why_not(with_second(candidate("b")), candidate("b")) == "as good: equals are drawn"
    fuller = candidate("b", (0.9, 1.0, 0.1), 0.725, inputs={"kv_usage": 0.9})
    assert "its KV cache is fuller, 90% against 40%" in why_not(with_second(fuller), fuller)
    assert why_rejected(made.rejected[0]) == "cordoned: an operator keeps new requests away from it"
    assert why_rejected(RejectedView("w", "not_ready")) == "not ready"


def test_what_spoke_for_it_is_said_too() -> None:
    mixed = candidate("b", (0.2, 1.0, 0.9), 0.575, inputs={"tokens": 5000.0})
    assert why_not(with_second(mixed), mixed) == (
        "total 0.575 against 0.850: more tokens in flight, 5,000 against 310, though better in kv_headroom"
    )


def test_an_old_sample_is_named_as_the_cause() -> None:
    old = candidate("b", (0.5, 0.5, 0.0), 0.3, stale=True, sample_age_s=9.0)
    assert why_not(with_second(old), old).count("its last sample is too old to trust") == 2


def test_a_scorer_that_is_not_known_here_is_told_by_its_scores() -> None:
    by = RoutingProfile({"clairvoyance": 1.0})
    one, two = candidate("a", (0.9,), 0.9), candidate("b", (0.4,), 0.4)
    made = replace(decision(), by=by, scorers=("clairvoyance",), candidates=(one, two), chosen="a")
    assert why_not(made, two) == "total 0.400 against 0.900: clairvoyance 0.400 against 0.900"


def test_what_is_drawn_may_be_worse_than_another() -> None:
    made = decision()
    by_chance = replace(
        made, by=SOFTMAX, chosen="smollm2-2", candidates=(candidate("smollm2-1", chance=0.96), made.candidates[1])
    )
    assert why_not(by_chance, by_chance.candidates[0]) == ("drawn against its chance of 96%; total 0.850 against 0.510")


@pytest.mark.parametrize(
    ("by", "words"),
    [
        (decision().by, "balanced: inflight_tokens × 2, kv_headroom × 1, queue_depth × 1; picker max"),
        (SOFTMAX, "balanced: inflight_tokens × 2, kv_headroom × 1, queue_depth × 1; picker softmax at temperature 0.1"),
        (ROUND_ROBIN, "balanced: inflight_tokens × 1; picker round_robin"),
    ],
)
def test_the_rule(by: RoutingProfile, words: str) -> None:
    assert rule_words(replace(decision(), by=by)) == words
