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
