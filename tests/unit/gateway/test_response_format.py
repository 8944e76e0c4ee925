from __future__ import annotations

import json
from typing import Any

import pytest

from control_plane.contracts.errors import InvalidRequest
from control_plane.gateway.schema.response_format import response_format

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def read(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = response_format("response_format", value)
    return found


def test_every_format() -> None:
    assert read({"type": "text"}) == {}
    assert read({"type": "json_object"}) == {"json_object": True}
    wrapped = {"name": "answer", "schema": SCHEMA, "strict": True, "description": "x"}
    found = read({"type": "json_schema", "json_schema": wrapped})
    assert json.loads(found["json_schema"]) == SCHEMA


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("json", "response_format"),
        ({}, "response_format.type"),
        ({"type": "xml"}, "response_format.type"),
        ({"type": "json_object", "x": 1}, "response_format"),
        ({"type": "json_schema"}, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": {"schema": SCHEMA}}, "response_format.json_schema.name"),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, "response_format.json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": []}}, "response_format.json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": {}, "y": 1}}, "response_format.json_schema"),
        (
            {"type": "json_schema", "json_schema": {"name": "x", "schema": {"maximum": float("inf")}}},
            "response_format.json_schema.schema",
        ),
        (
            {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": [[-float("inf")]]}}},
            "response_format.json_schema.schema",
        ),
        (
            {"type": "json_schema", "json_schema": {"name": "x", "schema": {"x": "y" * 70_000}}},
            "response_format.json_schema.schema",
        ),
    ],
)
def test_what_is_refused(value: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(value)
    assert caught.value.param == param


def schema_of(schema: dict[str, Any]) -> dict[str, Any]:
    return read({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})


def array(**counts: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "integer"}, **counts}


@pytest.mark.parametrize(
    "schema",
    [
        array(minItems=2**63),
        array(minItems=1_000_000_000),
        array(maxItems=2**31 - 1),
        array(maxItems=1e12),
        array(minItems=10**400, maxItems=1.5),
        array(minItems=-(10**9)),
        {"contains": {}, "minContains": 20_000},
        {"properties": {"default": array(maxItems=20_000)}},
        {"anyOf": [{"$defs": {"a": {"prefixItems": [array(minItems=20_000)]}}}]},
        {"properties": {f"p{number}": array(maxItems=100 + number) for number in range(150)}},
    ],
)
def test_a_schema_of_very_many_items_does_not_reach_an_engine(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"may have 16384 items in all") as caught:
        schema_of(schema)
    assert caught.value.param == "response_format.json_schema.schema"


@pytest.mark.parametrize(
    "schema",
    [
        array(minItems=1, maxItems=4096),
        {"properties": {"minItems": array(maxItems=10), "maxItems": {"type": "integer", "maximum": 10**9}}},
        {"type": "string", "maxLength": 10**9},
    ],
)
def test_a_schema_of_many_items_does(schema: dict[str, Any]) -> None:
    assert json.loads(schema_of(schema)["json_schema"]) == schema
