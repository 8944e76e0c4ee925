"""JSON that follows a schema, or a refusal that names why not."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from control_plane.contracts.errors import InvalidRequest
from tests.fuzz.bounds import bounded
from workers.engine.modelless.json_value import any_object, value_of

NODE = {
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "v": {"type": "integer"}}}},
    "$ref": "#/$defs/node",
    "required": ["next"],
}


REFERRING = {
    "$defs": {"a": {"type": "integer", "minimum": 4}},
    "type": "object",
    "properties": {"x": {"$ref": "#/$defs/a"}},
    "required": ["x"],
}


def word() -> str:
    return "word"


def made(schema: Any) -> Any:
    value = json.loads(value_of(json.dumps(schema), word))
    Draft202012Validator(schema, format_checker=FormatChecker()).validate(value)
    return value


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (True, {}),
        ({}, {}),
        ({"type": "object"}, {}),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {}),
        (
            {"properties": {"a": {"type": "string"}, "b": {"type": "boolean"}}, "required": ["b", "a"]},
            {"b": True, "a": "word"},
        ),
        ({"type": "object", "properties": {"a": {"const": 1}}, "minProperties": 2}, {"a": 1, "more_1": {}}),
        ({"type": "object", "required": ["x"], "additionalProperties": {"type": "null"}}, {"x": None}),
        ({"type": "array", "items": {"type": "integer"}}, []),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [0, 0]),
        ({"type": "array", "prefixItems": [{"type": "null"}], "items": {"const": 2}, "minItems": 3}, [None, 2, 2]),
        ({"type": "string", "minLength": 7}, "word word"),
        ({"type": "string", "maxLength": 2}, "wo"),
        ({"type": "string", "format": "date"}, "2000-01-01"),
        ({"enum": ["x", "y"]}, "x"),
        ({"type": "integer", "enum": ["x", 3]}, 3),
        ({"const": {"a": []}}, {"a": []}),
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "integer", "exclusiveMinimum": 3}, 4),
        ({"type": "integer", "maximum": -3}, -3),
        ({"type": "integer", "exclusiveMaximum": -3}, -4),
        ({"type": "integer", "minimum": 7, "multipleOf": 5}, 10),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5),
        ({"type": "number", "minimum": 2.5}, 3.5),
        ({"type": ["null", "string"]}, None),
        ({"anyOf": [{"type": "string", "pattern": "x"}, {"type": "integer"}]}, 0),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}], "title": "t"}, "word"),
        ({"allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": {"type": "null"}}}]}, {"a": None}),
        ({"allOf": [{"minimum": 2}, {"minimum": 5, "type": "number"}, {"type": "integer"}]}, 5),
        (REFERRING, {"x": 4}),
        (NODE, {"next": {}}),
    ],
)
def test_the_least_that_follows(schema: Any, value: Any) -> None:
    assert made(schema) == value


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        (False, "false"),
        ({"type": "string", "pattern": "^a+$"}, "'pattern'"),
        ({"not": {}}, "'not'"),
        ({"type": "array", "contains": {"const": 1}, "minItems": 1}, "'contains'"),
        ({"type": "array", "minItems": 2, "uniqueItems": True}, "'uniqueItems'"),
        ({"type": "string", "format": "iri"}, "'format' 'iri'"),
        ({"type": "integer", "minimum": 4, "maximum": 3}, "bounds"),
        ({"type": "object", "required": ["x"], "additionalProperties": False}, "false"),
        ({"anyOf": [False, {"not": {}}]}, "'anyOf'"),
        ({"$ref": "https://example.com/x"}, "'$ref'"),
        ({"$ref": "#/$defs/none"}, "'$ref'"),
        ({"$ref": "#"}, "levels"),
        ({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, "levels"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "levels"),
        ({"type": "array", "minItems": 10**9}, "values"),
        ({"type": "string", "minLength": 10**9}, "'minLength'"),
        ({"type": "array", "minItems": 1000, "items": {"const": "x" * 100}}, "characters"),
        ({"type": "money"}, "'type' 'money'"),
        ({"type": "object", "properties": [], "required": ["a"]}, "no JSON schema"),
        ({"enum": ["a"], "minLength": 2}, "'enum' beside bounds"),
        (
            {"allOf": [{"properties": {"a": {}}, "additionalProperties": False}, {"properties": {"b": {}}}]},
            "'additionalProperties'",
        ),
        ({"type": "array", "items": {}, "allOf": [{"items": {"type": "null"}}]}, "'items' of two parts"),
        ({"anyOf": 3}, "no JSON schema"),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, "two types"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(schema: Any, named: str) -> None:
    with pytest.raises(InvalidRequest, match="JSON schema") as refused:
        value_of(json.dumps(schema), word)
    assert named in refused.value.message
    assert refused.value.param == "response_format"


SCHEMAS = st.recursive(
    st.booleans()
    | st.builds(dict)
    | st.fixed_dictionaries({"type": st.sampled_from(["object", "array", "string", "boolean", "null"])})
    | st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={
            "minimum": st.integers(-9, 9),
            "exclusiveMinimum": st.integers(-9, 9),
            "maximum": st.integers(-9, 9),
            "exclusiveMaximum": st.integers(-9, 9),
            "multipleOf": st.integers(1, 4),
        },
    )
    | st.fixed_dictionaries(
        {"type": st.just("string")}, optional={"minLength": st.integers(0, 20), "maxLength": st.integers(0, 20)}
    ),
    lambda inner: (
        st.fixed_dictionaries(
            {"type": st.just("object")},
            optional={
                "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
                "required": st.lists(st.sampled_from("abcd"), max_size=3, unique=True),
                "additionalProperties": inner,
                "minProperties": st.integers(0, 5),
            },
        )
        | st.fixed_dictionaries(
            {"type": st.just("array")},
            optional={
                "items": inner,
                "prefixItems": st.lists(inner, min_size=1, max_size=2),
                "minItems": st.integers(0, 4),
                "maxItems": st.integers(0, 4),
            },
        )
        | st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)})
        | st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=2)})
    ),
    max_leaves=8,
)


@given(SCHEMAS)
@bounded(300)
def test_whatever_is_made_follows_its_schema(schema: Any) -> None:
    with suppress(InvalidRequest):
        made(schema)


KEYWORDS = """
    type enum const properties required items prefixItems minItems maxItems minLength maxLength minimum maximum
    multipleOf anyOf oneOf allOf $ref $defs format additionalProperties minProperties
"""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.sampled_from(["string", "array", "#", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS.split()), inner, max_size=3),
    max_leaves=10,
)


@given(VALUES)
@bounded(300)
def test_what_is_no_schema_is_refused_or_followed_and_nothing_else(schema: Any) -> None:
    with suppress(InvalidRequest):
        json.loads(value_of(json.dumps(schema), word))


def test_any_object_is_one() -> None:
    assert json.loads(any_object(word)) == {"answer": "word word"}
