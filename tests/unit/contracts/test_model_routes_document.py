"""Routes of models as a document, and as they are typed."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.plain.policy_toml import to_toml
from control_plane.contracts.complexity_rule import DEFAULT_WEIGHTS, ComplexityRule
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.model_routes import ModelRoute, ModelRoutes
from control_plane.contracts.model_routes_document import routes_document, routes_of
from control_plane.contracts.policy import Policy
from control_plane.contracts.policy_document import assigned, differences
from control_plane.contracts.routing import Routing
from control_plane.contracts.v1 import routing_pb2 as pb
from control_plane.contracts.wire.convert import from_wire, to_wire
from tests.unit.contracts.routes import NAMES, routes


@given(routes())
def test_routes_come_back_out_of_every_form_that_they_are_written_in(found: dict[str, ModelRoute]) -> None:
    document = routes_document(found)
    assert routes_of(document, "m") == found
    assert routes_of(json.loads(json.dumps(document)), "m") == found
    assert routes_of(tomllib.loads(to_toml({"m": document}))["m"] if document else {}, "m") == found
    assert from_wire(to_wire(Routing(models=found), pb.Routing), Routing).models == found


@given(routes(), st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_no_name_leads_back_to_itself(found: dict[str, ModelRoute], start: str, end: str) -> None:
    """A way back is found wherever it is closed; what is taken in has none."""
    document = routes_document(found)
    document[end] = {"target": start}
    leads = ModelRoutes({**found, end: ModelRoute(target=start)})
    closed, waiting, seen = False, [start], set[str]()
    while waiting:
        name = waiting.pop()
        closed = closed or name == end
        route = leads.get(name)
        waiting += [each for each in (route.targets if route else ()) if each not in seen]
        seen.add(name)
    if closed:
        with pytest.raises(InvalidRequest, match=r"leads (back )?to itself"):
            routes_of(document, "routing.models")
    else:
        assert routes_of(document, "routing.models")[end].target == start


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "target",
                    "split",
                    "small",
                    "large",
                    "threshold",
                    "weights",
                    "words",
                    "fallback",
                    "shadow",
                    "code",
                    "x",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["x", "y", "a.b", ""]), JSON_VALUES, max_size=3) | JSON_VALUES)
def test_any_document_is_routes_or_refused_by_the_name_of_a_field(document: Any) -> None:
    refused = None
    try:
        found = routes_of(document, "routing.models")
    except InvalidRequest as error:
        refused = error
    if refused is None:
        assert routes_of(routes_document(found), "routing.models") == found
    else:
        assert refused.param
        assert refused.message.startswith(refused.param)


@pytest.mark.parametrize(
    ("route", "param", "words"),
    [
        ({}, "r", "where does it lead"),
        ({"target": ""}, "r.target", "1 to 200 characters"),
        ({"target": " a"}, "r.target", "1 to 200 characters"),
        ({"target": "a\n"}, "r.target", "1 to 200 characters"),
        ({"target": "r"}, "r", "leads to itself"),
        ({"target": "r", "shadow": True, "fallback": ["r"]}, "", ""),
        ({"split": {"r": 1, "a": 1}}, "r.split", "shadow=true"),
        ({"fallback": ["r"]}, "r.fallback", "leads to itself"),
        ({"target": "a", "split": {"a": 1}}, "r", "one way"),
        ({"small": "a"}, "r.large", "go together"),
        ({"large": "a"}, "r.small", "go together"),
        ({"target": "a", "threshold": 0.5}, "r.threshold", "only a route between small and large"),
        ({"target": "a", "weights": {}}, "r.weights", "only a route between small and large"),
        ({"split": {}}, "r.split", "names with their weights"),
        ({"split": {"a": 0}}, "r.split", "above 0"),
        ({"split": {"a": 1.5}}, "r.split.a", "whole number"),
        ({"split": {"a": -1}}, "r.split.a", "whole number"),
        ({"split": ["a"]}, "r.split", "a table"),
        ({"small": "a", "large": "b", "threshold": 1.5}, "r.threshold", "0 to 1"),
        ({"small": "a", "large": "b", "threshold": float("nan")}, "r.threshold", "a number"),
        ({"small": "a", "large": "b", "weights": {"colour": 1}}, "r.weights.colour", "there are length, code"),
        ({"small": "a", "large": "b", "weights": {"code": 2}}, "r.weights.code", "0 to 1"),
        ({"small": "a", "large": "b", "long_prompt": 0}, "r.long_prompt", "from 1"),
        ({"small": "a", "large": "b", "words": [""]}, "r.words", "1 to 64 characters"),
        ({"small": "a", "large": "b", "words": "prove"}, "r.words", "a list"),
        ({"target": "a", "shadow": "yes"}, "r.shadow", "true or false"),
        ({"target": "a", "fallback": "b"}, "r.fallback", "a list"),
        ({"tagret": "a"}, "r.tagret", "did you mean target"),
    ],
)
def test_what_is_wrong_with_a_route(route: dict[str, Any], param: str, words: str) -> None:
    if not param:
        assert routes_of({"r": route}, "m")["r"].shadow
        return
    with pytest.raises(InvalidRequest) as caught:
        routes_of({"r": route}, "m")
    assert caught.value.param == f"m.{param}"
    assert words in caught.value.message


def test_small_and_large_are_no_names_of_routes() -> None:
    with pytest.raises(InvalidRequest, match="another name"):
        routes_of({"small": {"target": "a"}}, "m")
    assert routes_of({"small": {"fallback": ["a"]}}, "m"), "a model may be called so"


def test_routes_are_typed_field_by_field() -> None:
    after = assigned(
        Policy(),
        (
            "routing.models.smart.target=smollm2-135m",
            "routing.models.smart.fallback=other, third",
            "routing.models.gpt-4.1.target=smart",
            "routing.models.blend.split=a:90,ns/b:7b:10",
            "routing.models.auto.small=a",
            "routing.models.auto.large=b",
            "routing.models.auto.threshold=0.3",
            "routing.models.auto.weights.code=0.9",
            "routing.models.auto.long_output=256",
            "routing.models.auto.words=prove, step by step",
            "routing.models.a.split=a:3,b:1",
            "routing.models.a.shadow=true",
        ),
    ).routing.models
    assert after["smart"] == ModelRoute(target="smollm2-135m", fallback=("other", "third"))
    assert after["gpt-4.1"] == ModelRoute(target="smart")
    assert after["blend"].split == {"a": 90, "ns/b:7b": 10}
    rule = ComplexityRule(dict(DEFAULT_WEIGHTS) | {"code": 0.9}, long_output=256, words=("prove", "step by step"))
    assert after["auto"] == ModelRoute(small="a", large="b", threshold=0.3, rule=rule)
    assert after["a"] == ModelRoute(split={"a": 3, "b": 1}, shadow=True)


def test_a_route_is_taken_away_whole_or_in_part() -> None:
    before = assigned(Policy(), ("routing.models.smart.target=a", "routing.models.smart.fallback=b"))
    assert assigned(before, ("routing.models.smart=none",)).routing.models == {}
    assert assigned(before, ("routing.models=none",)).routing.models == {}
    only = assigned(before, ("routing.models.smart.fallback=none",)).routing.models
    assert only == {"smart": ModelRoute(target="a")}
    again = assigned(before, ("routing.models.smart=none", "routing.models.smart.split=a:1,b:1"))
    assert again.routing.models["smart"].kind == "split"


@pytest.mark.parametrize(
    ("assignment", "param", "words"),
    [
        ("routing.models.smart=a", "routing.models.smart", "which field of it"),
        ("routing.models.smart=none", "routing.models.smart", "no such route"),
        ("routing.models=a", "routing.models", "which route"),
        ("routing.models.smart.colour=a", "routing.models.smart.colour", "unknown field 'colour'; there are target"),
        ("routing.models.blend.split=a", "routing.models.blend.split", "NAME:WEIGHT"),
        ("routing.models.blend.split=a:x", "routing.models.blend.split", "NAME:WEIGHT"),
        ("routing.models.x.threshold=high", "routing.models.x.threshold", "no number"),
        ("routing.models.x.weights.code=high", "routing.models.x.weights.code", "no number"),
        ("routing.models.x.weights=1", "routing.models.x.weights", "weights.PART"),
        ("routing.models.x.long_prompt=many", "routing.models.x.long_prompt", "no whole number"),
        ("routing.models.x.shadow=perhaps", "routing.models.x.shadow", "true or false"),
        ("routing.models.x.target=x", "routing.models.x", "leads to itself"),
        ("routing.models..target=x", "routing.models..target", "which field"),
    ],
)
def test_what_is_wrong_with_what_was_typed(assignment: str, param: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        assigned(Policy(), (assignment,))
    assert caught.value.param == param
    assert words in caught.value.message


def test_differences_tell_what_was_done() -> None:
    before = assigned(Policy(), ("routing.models.smart.target=a",))
    after = assigned(before, ("routing.models.smart.target=b", "routing.models.b.fallback=a,c"))
    assert differences(before, after) == (
        "routing.models.smart.target: a → b",
        "routing.models.b.fallback: none → a, c",
    )
