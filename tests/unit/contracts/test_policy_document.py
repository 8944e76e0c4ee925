"""The policy as a document."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from console.plain.policy_toml import to_toml
from control_plane.contracts.access import KeySpec, KeyView
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.keeping import Keeping
from control_plane.contracts.key_spec import assigned as key_assigned
from control_plane.contracts.key_spec import check, grant_of
from control_plane.contracts.policy import DEFAULT_TIERS, Limits, Policy, Tier
from control_plane.contracts.policy_document import assigned, differences, document_of, policy_of
from control_plane.contracts.profile_document import LARGEST_TEMPERATURE, LEAST_TEMPERATURE
from control_plane.contracts.routing import BUILT_IN, PROFILES, SCORERS, Routing, RoutingProfile
from control_plane.contracts.v1 import access_pb2 as pb
from control_plane.contracts.wire.convert import from_wire, to_wire
from tests.unit.contracts.routes import routes

NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,20}[A-Za-z0-9])?", fullmatch=True)
BOUND = st.none() | st.integers(1, 10**12)
LIMITS = st.builds(Limits, BOUND, BOUND, BOUND)
MODELS = st.lists(
    st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=20), max_size=3, unique=True
).map(tuple)
TIERS = st.builds(
    Tier,
    st.integers(-1000, 1000),
    st.integers(1, 1000),
    LIMITS,
    st.integers(1, 10**7),
    st.floats(0, 3600),
    MODELS.filter(lambda models: all(model.isprintable() for model in models)),
)
PROFILE_NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,20}[A-Za-z0-9])?", fullmatch=True).filter(
    lambda name: name not in BUILT_IN
)
WEIGHTS = st.dictionaries(st.sampled_from(SCORERS), st.floats(0, 1000, exclude_min=True), min_size=1)
ROUTING_PROFILES = st.builds(RoutingProfile, WEIGHTS, st.sampled_from(["max", "round_robin"])) | st.builds(
    RoutingProfile, WEIGHTS, st.just("softmax"), st.floats(LEAST_TEMPERATURE, LARGEST_TEMPERATURE)
)
POLICIES = st.builds(
    Policy,
    st.integers(0, 2**31),
    st.dictionaries(NAMES, TIERS, min_size=1, max_size=4),
    st.dictionaries(NAMES, LIMITS.filter(lambda limits: limits != Limits()), max_size=4),
    st.sampled_from(["open", "closed"]),
    st.builds(
        lambda profiles, pick, models: Routing(pick(["", *PROFILES, *profiles]), profiles, models),
        st.dictionaries(PROFILE_NAMES, ROUTING_PROFILES, max_size=3),
        st.sampled_from([lambda names: names[0], lambda names: names[1], lambda names: names[-1]]),
        routes(),
    ),
    st.builds(Keeping, st.integers(1, 10**12), st.dictionaries(NAMES, st.integers(1, 10**12), max_size=3)),
)


@given(POLICIES)
def test_a_policy_comes_back_out_of_every_form_it_is_written_in(policy: Policy) -> None:
    document = document_of(policy)
    assert policy_of(document) == policy
    assert policy_of(json.loads(json.dumps(document))) == policy
    assert policy_of(tomllib.loads(to_toml(document))) == policy
    assert policy_of(yaml.safe_load(yaml.safe_dump(document))) == policy
    assert from_wire(to_wire(policy, pb.Policy), Policy) == policy


@given(POLICIES, POLICIES)
def test_there_are_differences_exactly_where_something_differs(one: Policy, other: Policy) -> None:
    same = replace(one, version=0) == replace(other, version=0)
    assert bool(differences(one, other)) is not same
    assert differences(one, one) == ()


def tried(make: Callable[[], Policy]) -> Policy | None:
    """What it makes; None where it is refused, by the name of a field."""
    refused = None
    try:
        return make()
    except InvalidRequest as error:
        refused = error
    assert refused.param
    assert refused.message.startswith(refused.param)
    return None


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["version", "tiers", "tenants", "free", "rpm", "models", "weight", "queue_deadline_s", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_any_document_is_a_policy_or_refused_by_the_name_of_a_field(document: Any) -> None:
    policy = tried(lambda: policy_of(document))
    assert policy is None or policy_of(document_of(policy)) == policy


@given(
    st.text(max_size=40)
    | st.from_regex(r"(tiers|tenants)\.[a-z]{1,5}(\.[a-z_]{1,8})?=[a-z0-9.,-]{0,6}")
    | st.from_regex(
        r"routing\.profiles\.[a-z]{1,3}\.(weights\.(queue_depth|x)|picker|temperature)=(softmax|max|[0-9.]{1,3})"
    )
)
def test_any_assignment_does_something_or_is_refused_by_name(text: str) -> None:
    after = tried(lambda: assigned(Policy(), (text,)))
    assert after is None or policy_of(document_of(after)) == after


def test_assignments_are_done_one_by_one() -> None:
    after = assigned(
        Policy(),
        (
            "tiers.free.rpm=10",
            "tiers.free.tpm=none",
            "tiers.paid.models=a, b",
            "tiers.paid.queue_deadline_s=2.5",
            "tiers.free.priority=-5",
            "tiers.night.weight=2",
            "tiers.enterprise=none",
            "tenants.acme.co.tpm=5_000",
            "limit_store_down=closed",
            "routing.profile=round_robin",
            "conversations=500",
            "tenants.acme.co.conversations=7",
            "tenants.other.conversations=8",
        ),
    )
    assert after.keeping == Keeping(500, {"acme.co": 7, "other": 8})
    assert [after.keeping.conversations_of(tenant) for tenant in ("acme.co", "nobody")] == [7, 500]
    assert "other" not in after.tenants
    assert assigned(after, ("conversations=none", "tenants.other.conversations=none")).keeping == Keeping(
        10_000, {"acme.co": 7}
    )
    assert after.tiers["free"].limits == Limits(10, None, 4)
    assert after.tiers["free"].priority == -5
    assert after.tiers["paid"].models == ("a", "b")
    assert after.tiers["paid"].queue_deadline_s == 2.5
    assert after.tiers["night"] == Tier(weight=2)
    assert "enterprise" not in after.tiers
    assert after.tenants == {"acme.co": Limits(tpm=5000)}
    assert after.limit_store_down == "closed"
    assert after.routing == Routing("round_robin")
    assert assigned(after, ("routing.profile=none",)).routing == Routing()
    assert assigned(after, ("tenants.acme.co.tpm=none",)).tenants == {}
    assert assigned(after, ("tenants.acme.co=none",)).tenants == {}


@pytest.mark.parametrize(
    ("assignment", "param", "words"),
    [
        ("tiers.free.rpm=0", "tiers.free.rpm", "a whole number from 1"),
        ("tiers.free.rpm=1.5", "tiers.free.rpm", "no whole number"),
        ("tiers.free.rpm=", "tiers.free.rpm", "no whole number"),
        ("tiers.free.weight=0", "tiers.free.weight", "from 1 to 1,000"),
        ("tiers.free.queue_deadline_s=nan", "tiers.free.queue_deadline_s", "seconds"),
        ("tiers.free.queue_deadline_s=-1", "tiers.free.queue_deadline_s", "0 to 3600"),
        ("tiers.free.colour=red", "tiers.free.colour", "unknown field 'colour'; there are priority"),
        ("tiers.fre.rpm=1", "tiers.fre.rpm", "did you mean free"),
        ("tiers.gone=none", "tiers.gone", "there is no such tier"),
        ("tiers.free=5", "tiers.free", "which field"),
        ("tenants.acme.weight=5", "tenants.acme.weight", "unknown field"),
        ("tiers.no spaces.rpm=5", "tiers.no spaces.rpm", "not a name"),
        ("limit_store_down=ajar", "limit_store_down", "open or closed"),
        ("rpm=5", "rpm", "tiers.NAME.FIELD"),
        ("routing.profile=best", "routing.profile", "no profile; there are prefix_aware"),
        ("routing.colour=red", "routing.colour", "unknown field 'colour'; there are profile"),
        ("routing.profiles.mine.picker=max", "routing.profiles.mine.weights", "at least one scorer needs a weight"),
        ("routing.profiles.mine.weights.prefx=1", "routing.profiles.mine.weights.prefx", "unknown scorer"),
        ("routing.profiles.mine.weights.queue_dept=1", "routing.profiles.mine.weights.queue_dept", "mean queue_depth"),
        ("routing.profiles.mine.weights.queue_depth=0", "routing.profiles.mine.weights.queue_depth", "above 0"),
        ("routing.profiles.mine.weights.queue_depth=nan", "routing.profiles.mine.weights.queue_depth", "above 0"),
        ("routing.profiles.mine.weights.queue_depth=many", "routing.profiles.mine.weights.queue_depth", "no number"),
        ("routing.profiles.mine.colour=red", "routing.profiles.mine.colour", "unknown field 'colour'"),
        ("routing.profiles.mine=5", "routing.profiles.mine", "which field"),
        ("routing.profiles.mine=none", "routing.profiles.mine", "no such profile"),
        ("routing.profiles.balanced.weights.queue_depth=1", "routing.profiles.balanced", "comes with the program"),
        ("routing.profiles.a b.weights.queue_depth=1", "routing.profiles", "no profile's name"),
        ("tiers.free.rpm", "tiers.free.rpm", "not FIELD=VALUE"),
    ],
)
def test_what_is_wrong_with_an_assignment(assignment: str, param: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        assigned(Policy(), (assignment,))
    assert caught.value.param == param
    assert words in caught.value.message


def test_profiles_of_ones_own_are_made_changed_and_taken_away() -> None:
    made = assigned(
        Policy(),
        (
            "routing.profiles.mine.weights.queue_depth=1",
            "routing.profiles.mine.weights.inflight_tokens=2.5",
            "routing.profiles.mine.picker=softmax",
            "routing.profile=mine",
        ),
    )
    weights = {"inflight_tokens": 2.5, "queue_depth": 1.0}
    assert made.routing == Routing("mine", {"mine": RoutingProfile(weights, "softmax", 0.1)})
    assert made.routing.named("mine") == made.routing.profiles["mine"]
    cooler = assigned(
        made, ("routing.profiles.mine.temperature=0.02", "routing.profiles.mine.weights.queue_depth=none")
    )
    assert cooler.routing.profiles["mine"] == RoutingProfile({"inflight_tokens": 2.5}, "softmax", 0.02)
    best = assigned(cooler, ("routing.profiles.mine.picker=max",))
    assert best.routing.profiles["mine"] == RoutingProfile({"inflight_tokens": 2.5})
    with pytest.raises(InvalidRequest, match="in use cannot be taken away") as caught:
        assigned(best, ("routing.profiles.mine=none",))
    assert (caught.value.param, caught.value.hint) == ("routing.profile", "inferdeck policy set routing.profile=none")
    assert assigned(best, ("routing.profiles.mine=none", "routing.profile=balanced")).routing == Routing("balanced")
    with pytest.raises(InvalidRequest, match="did you mean mine"):
        assigned(best, ("routing.profiles.mime.picker=max",))


@pytest.mark.parametrize(
    ("profile", "param"),
    [
        ({"weights": {"queue_depth": 1}, "picker": "best"}, "routing.profiles.p.picker"),
        ({"weights": {"queue_depth": 1}, "temperature": 1}, "routing.profiles.p.temperature"),
        ({"weights": {"queue_depth": 1}, "picker": "softmax", "temperature": 0}, "routing.profiles.p.temperature"),
        ({"weights": {"queue_depth": True}}, "routing.profiles.p.weights.queue_depth"),
        ({"weights": []}, "routing.profiles.p.weights"),
        ({"weight": {"queue_depth": 1}}, "routing.profiles.p.weight"),
        ("balanced", "routing.profiles.p"),
    ],
)
def test_what_is_wrong_with_a_profile(profile: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        policy_of({"tiers": {"free": {}}, "routing": {"profiles": {"p": profile}}})
    assert caught.value.param == param
    assert caught.value.message.startswith(param)


def test_an_unknown_field_is_told_with_the_one_that_was_meant() -> None:
    with pytest.raises(InvalidRequest, match="did you mean weight") as caught:
        policy_of({"tiers": {"free": {"wieght": 3}}})
    assert caught.value.param == "tiers.free.wieght"
    with pytest.raises(InvalidRequest, match="at least one tier"):
        policy_of({"tiers": {}})


@given(
    st.builds(
        KeySpec,
        st.just("k"),
        NAMES,
        st.sampled_from(sorted(DEFAULT_TIERS)),
        LIMITS,
        MODELS.filter(lambda models: all(model.isprintable() for model in models)),
        st.none() | st.floats(2e9, 3e9),
    )
)
def test_a_grant_has_the_keys_own_and_the_tiers_where_there_is_none(spec: KeySpec) -> None:
    check(spec, Policy(), 1e9)
    tier = DEFAULT_TIERS[spec.tier]
    grant = grant_of(KeyView("key-1", "sk", spec, 1.0), Policy())
    for name in ("rpm", "tpm", "concurrency"):
        own = getattr(spec.limits, name)
        assert getattr(grant.limits, name) == (own if own is not None else getattr(tier.limits, name))
    assert grant.models == (spec.models or tier.models)
    assert (grant.tenant, grant.expires_unix, grant.priority) == (spec.tenant, spec.expires_unix, tier.priority)
    assert from_wire(to_wire(spec, pb.KeySpec), KeySpec) == spec


def test_a_keys_fields_are_assigned_one_by_one() -> None:
    spec = key_assigned(
        KeySpec("k"), ("rpm=60", "tier=free", "models=a,b", "expires_unix=2e9", "tenant=acme", "name=n")
    )
    assert spec == KeySpec("n", "acme", "free", Limits(rpm=60), ("a", "b"), 2e9)
    assert key_assigned(spec, ("rpm=none", "models=none", "expires_unix=none")) == KeySpec("n", "acme", "free")
    for wrong in ("rpm=0", "rpm=x", "colour=red", "rpm", "expires_unix=soon", "models=\x00"):
        with pytest.raises(InvalidRequest) as caught:
            key_assigned(spec, (wrong,))
        assert caught.value.param
