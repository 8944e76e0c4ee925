"""Where names lead, and who may use them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.model_routes import ModelRoute, ModelRoutes, shadowed, warnings
from tests.unit.contracts.routes import MODELS, NAMES, routes

LEADS = ModelRoutes(
    {
        "smart": ModelRoute(target="blend", fallback=("c",)),
        "blend": ModelRoute(split={"a": 90, "b": 10}),
        "auto": ModelRoute(small="a", large="b"),
        "best": ModelRoute(target="auto"),
        "a": ModelRoute(fallback=("b",)),
        "d": ModelRoute(split={"d": 90, "e": 10}, shadow=True),
    }
)


def test_where_a_name_can_end() -> None:
    assert LEADS.ends("smart") == {"a", "b", "c"}
    assert LEADS.reached("smart") == {"smart", "blend", "a", "b", "c"}
    assert LEADS.ends("a") == {"a", "b"}, "its own, and what it falls back to"
    assert LEADS.ends("d") == {"d", "e"}, "its own name is the model's there"
    assert LEADS.ends("unknown") == {"unknown"}


def test_the_one_model_that_a_name_leads_to() -> None:
    routes = ModelRoutes({"x": ModelRoute(target="y"), "y": ModelRoute(split={"z": 1}), "v": ModelRoute(target="w")})
    assert routes.only("x") == "z"
    assert routes.only("v") == routes.only("w") == "w"
    assert LEADS.only("smart") is None
    assert LEADS.only("a") == "a"
    assert LEADS.only("d") is None


def test_the_route_between_small_and_large_also_by_an_alias() -> None:
    auto = LEADS.get("auto")
    assert LEADS.auto_of("auto") is auto
    assert LEADS.auto_of("best") is auto
    for other in ("smart", "blend", "a", "unknown"):
        assert LEADS.auto_of(other) is None


def test_the_rules_that_may_be_needed() -> None:
    assert set(LEADS.scored("best")) == {"auto"}
    assert LEADS.scored("smart") == LEADS.scored("a") == LEADS.scored("unknown") == {}


@pytest.mark.parametrize(
    ("name", "own", "may"),
    [
        ("smart", {"smart"}, True),
        ("smart", {"a"}, False),
        ("smart", {"a", "b"}, False),  # it may fall back to c
        ("smart", {"a", "b", "c"}, True),
        ("smart", {"blend", "c"}, True),
        ("blend", {"a", "b"}, True),
        ("blend", {"a"}, False),
        ("auto", {"a"}, False),
        ("best", {"auto"}, True),
        ("a", {"a"}, True),
        ("a", {"b"}, False),
        ("d", {"e"}, False),
        ("d", {"d"}, True),
        ("unknown", {"a"}, False),
    ],
)
def test_a_name_is_allowed_by_itself_or_where_all_that_it_ends_at_is(name: str, own: set[str], may: bool) -> None:
    assert LEADS.allowed(name, own.__contains__) is may


@given(routes(), st.sets(st.sampled_from((*MODELS, *NAMES))), st.sampled_from(NAMES))
def test_who_may_not_use_a_name_could_reach_a_model_by_it_that_is_not_allowed(
    found: dict[str, ModelRoute], own: set[str], name: str
) -> None:
    leads = ModelRoutes(found)
    if leads.allowed(name, own.__contains__):
        assert leads.ends(name) <= own or own & leads.reached(name)
    else:
        assert name not in own
        assert not leads.ends(name) <= own
    assert leads.allowed(name, lambda _: True)
    assert leads.allowed(name, leads.ends(name).__contains__)


@given(routes(), st.sampled_from((*MODELS, *NAMES)))
def test_what_is_reached_ends_at_models_only(found: dict[str, ModelRoute], name: str) -> None:
    leads = ModelRoutes(found)
    ends = leads.ends(name)
    assert ends
    assert ends <= leads.reached(name)
    assert not any(leads.get(end) is not None and leads.get(end).kind for end in ends)  # type: ignore[union-attr]
    assert set(leads.scored(name)) <= leads.reached(name)


def test_a_model_has_its_name_to_itself_unless_a_route_says_that_it_takes_it() -> None:
    routes = ModelRoutes(
        {"a": ModelRoute(target="b", fallback=("c",)), "d": ModelRoute(target="b", shadow=True), "e": ModelRoute("b")}
    )
    among = routes.among({"a", "b", "d"})
    assert set(among.leading()) == {"d", "e"}
    kept = among.get("a")
    assert kept is not None
    assert (kept.kind, kept.fallback) == ("", ("c",))
    assert among.ends("a") == {"a", "c"}
    assert not among.allowed("a", {"b", "c"}.__contains__), "it is the model a again, which is another's"


def test_a_new_route_that_takes_a_models_name_has_to_say_so() -> None:
    models = {"a", "b"}
    taken = {"a": ModelRoute(target="b")}
    assert shadowed({}, taken, models) == "a"
    assert shadowed(taken, taken, models) is None, "it was there before the model"
    assert shadowed({}, {"a": ModelRoute(target="b", shadow=True)}, models) is None
    assert shadowed({}, {"a": ModelRoute(fallback=("b",)), "c": ModelRoute(target="b")}, models) is None


def test_what_leads_nowhere_is_told() -> None:
    routes = {
        "smart": ModelRoute(target="gone", fallback=("a", "lost")),
        "a": ModelRoute(target="b"),
        "old": ModelRoute(fallback=("a",)),
        "fine": ModelRoute(target="smart"),
    }
    assert warnings(routes, {"a", "b"}) == (
        "routing.models.a: a model of this name is served, and is what callers get; shadow=true changes that",
        "routing.models.old: nothing serves old at present, and it leads nowhere",
        "routing.models.smart: nothing serves gone at present",
        "routing.models.smart: nothing serves lost at present",
    )


def test_one_that_nothing_serves_is_told_once() -> None:
    routes = {name: ModelRoute(target="gone") for name in ("x", "y")}
    assert warnings(routes, {"a"}) == ("routing.models.x, routing.models.y: nothing serves gone at present",)
