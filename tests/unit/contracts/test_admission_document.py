"""What the policy says about admission."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.admission import AdmissionRules, Service
from control_plane.contracts.admission_document import rules_document, rules_of
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import DEFAULT_TIERS, Policy
from control_plane.contracts.policy_document import assigned, differences, document_of, policy_of
from control_plane.contracts.routing import Routing
from control_plane.contracts.v1 import routing_pb2
from control_plane.contracts.wire.convert import from_wire, to_wire

FRACTIONS = st.floats(0.01, 1.0)
RULES = st.builds(
    lambda begins, *rest: AdmissionRules(*sorted(begins), *rest),
    st.tuples(*[st.floats(0.01, 10.0)] * 3),
    st.floats(0.0, 0.5),
    FRACTIONS,
    st.integers(0, 10**6),
    st.integers(0, 10**5),
    FRACTIONS,
)


@given(RULES)
def test_rules_come_back_out_of_every_form(rules: AdmissionRules) -> None:
    assert rules_of(rules_document(rules)) == rules
    routing = Routing(admission=rules)
    assert from_wire(to_wire(routing, routing_pb2.Routing), Routing) == routing
    assert policy_of(document_of(Policy(routing=routing))).routing == routing


def test_a_control_plane_that_says_nothing_of_admission_leaves_it_as_it_comes() -> None:
    assert from_wire(routing_pb2.Routing(profile="balanced"), Routing) == Routing("balanced")


@given(RULES)
def test_the_bound_of_a_tier_is_within_the_bound_of_all(rules: AdmissionRules) -> None:
    assert 0 <= rules.tier_limit <= rules.queue_limit
    assert rules.tier_limit or not rules.queue_limit


def test_rules_are_assigned_and_taken_back_one_by_one() -> None:
    changed = assigned(
        Policy(), ("routing.admission.busy=0.7", "routing.admission.watch=0.6", "routing.admission.queue_limit=50")
    )
    assert changed.routing.admission == AdmissionRules(watch=0.6, busy=0.7, queue_limit=50)
    assert differences(Policy(), changed) == (
        "routing.admission.watch: 0.75 → 0.6",
        "routing.admission.busy: 0.8 → 0.7",
        "routing.admission.queue_limit: 1024 → 50",
    )
    one_back = assigned(changed, ("routing.admission.busy=0.8",))
    assert differences(changed, one_back) == ("routing.admission.busy: 0.7 → 0.8",)
    assert assigned(changed, ("routing.admission=none",)) == Policy()
    back = assigned(changed, ("routing.admission.watch=none", "routing.admission.busy=none"))
    assert back.routing.admission == AdmissionRules(queue_limit=50)


def test_tiers_say_what_their_calls_meet() -> None:
    changed = assigned(
        Policy(), ("tiers.free.at_busy=queue", "tiers.free.at_reject=queue", "tiers.free.min_share=0.25")
    )
    free = changed.tiers["free"]
    assert (free.at_busy, free.at_reject, free.min_share) == ("queue", "queue", 0.25)
    assert Grant("k", tier="free", weight=3, at_busy="throttle", min_share=0.25).service == Service(
        "free", 3, "throttle", "queue", 0.25
    )


@pytest.mark.parametrize("name", ["enterprise", "paid", "free"])
def test_a_policy_from_before_there_was_admission_means_the_same_as_a_new_one(name: str) -> None:
    document = document_of(Policy())
    for field in ("at_busy", "at_reject"):
        del document["tiers"][name][field]
    assert policy_of(document).tiers[name] == DEFAULT_TIERS[name]


@pytest.mark.parametrize(
    ("assignment", "field", "words"),
    [
        ("tiers.free.at_busy=drop", "tiers.free.at_busy", "dispatch, queue, throttle"),
        ("tiers.free.at_reject=throttle", "tiers.free.at_reject", "queue, refuse"),
        ("tiers.free.min_share=1.5", "tiers.free.min_share", "0 to 1"),
        ("tiers.free.min_share=much", "tiers.free.min_share", "no number"),
        ("tiers.free.min_share=0.95", "tiers.free.min_share", "more than 1"),
        ("routing.admission.bussy=0.7", "routing.admission.bussy", "there are watch, busy"),
        ("routing.admission.busy=0.95", "routing.admission.busy", "rise"),
        ("routing.admission.queue_limit=2.5", "routing.admission.queue_limit", "whole number"),
        ("routing.admission.kv_limit=0", "routing.admission.kv_limit", "0.01 to 1"),
        ("routing.admission=0.7", "routing.admission", "which field"),
    ],
)
def test_what_is_wrong_is_refused_by_name(assignment: str, field: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        assigned(Policy(), (assignment,))
    assert caught.value.param == field
    assert words in caught.value.message


@pytest.mark.parametrize(
    "document", [[], "x", {"busy": True}, {"busy": "0.8"}, {"watch": 0.9}, {"reject": 0.1}, {"x": 1}]
)
def test_a_document_that_is_wrong_is_refused(document: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        rules_of(document)
    assert caught.value.param is not None
    assert caught.value.param.startswith("routing.admission")
