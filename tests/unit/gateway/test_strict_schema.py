from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import xgrammar

from control_plane.contracts.errors import InvalidRequest
from control_plane.gateway.schema.response_format import read_schema, response_format

SCHEMA = "response_format.json_schema.schema"

# A value that follows the schema, and one that does not.
FOLLOWED: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "$ref": ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}, 1, "a"),
    "allOf": ({"allOf": [{"type": "integer"}]}, 1, "a"),
    "anyOf": ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 1, "a"),
    "oneOf": ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, None, "a"),
    "type": ({"type": ["integer", "null"]}, 1, "a"),
    "enum": ({"enum": ["not", "if"]}, "if", "then"),
    "const": ({"const": "not"}, "not", "if"),
    "properties": ({"properties": {"not": {"type": "integer"}}}, {"not": 1}, {"not": "a"}),
    "patternProperties": ({"type": "object", "patternProperties": {"^a": {"type": "integer"}}}, {"a": 1}, {"a": "x"}),
    "additionalProperties": ({"type": "object", "additionalProperties": False}, {}, {"a": 1}),
    "unevaluatedProperties": ({"type": "object", "unevaluatedProperties": {"type": "null"}}, {"a": None}, {"a": 1}),
    "propertyNames": ({"type": "object", "propertyNames": {"pattern": "^a$"}}, {"a": 1}, {"b": 1}),
    "required": ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, {"a": 1}, {}),
    "minProperties": ({"type": "object", "properties": {"a": {}}, "minProperties": 1}, {"a": 1}, {}),
    "maxProperties": ({"type": "object", "properties": {"a": {}}, "maxProperties": 0}, {}, {"a": 1}),
    "prefixItems": ({"type": "array", "prefixItems": [{"type": "integer"}]}, [1], ["a"]),
    "items": ({"type": "array", "items": {"type": "integer"}}, [1], ["a"]),
    "unevaluatedItems": ({"type": "array", "unevaluatedItems": False}, [], [1]),
    "minItems": ({"type": "array", "items": {}, "minItems": 1}, [1], []),
    "maxItems": ({"type": "array", "items": {}, "maxItems": 1}, [1], [1, 2]),
    "minLength": ({"type": "string", "minLength": 2}, "aa", "a"),
    "maxLength": ({"type": "string", "maxLength": 1}, "a", "aa"),
    "pattern": ({"type": "string", "pattern": "^a+$"}, "aa", "b"),
    "format": ({"type": "string", "format": "date"}, "2000-01-01", "a"),
    "minimum": ({"type": "integer", "minimum": 2}, 2, 1),
    "maximum": ({"type": "integer", "maximum": 2}, 2, 3),
    "exclusiveMinimum": ({"type": "integer", "exclusiveMinimum": 2}, 3, 2),
    "exclusiveMaximum": ({"type": "integer", "exclusiveMaximum": 2}, 1, 2),
}

UNFOLLOWED: dict[str, dict[str, Any]] = {
    "$dynamicRef": {"$dynamicRef": "#a"},
    "$recursiveRef": {"$recursiveRef": "#"},
    "contains": {"contains": {}},
    "dependencies": {"dependencies": {"a": ["b"]}},
    "dependentRequired": {"dependentRequired": {"a": ["b"]}},
    "dependentSchemas": {"dependentSchemas": {"a": {"required": ["b"]}}},
    "disallow": {"disallow": ["string"]},
    "divisibleBy": {"divisibleBy": 2},
    "extends": {"extends": {"minimum": 2}},
    "if": {"if": {}, "then": {"type": "integer"}},
    "not": {"not": {"type": "string"}},
    "uniqueItems": {"uniqueItems": True},
}

# These say nothing of a value by themselves, or are left to llguidance, which follows or names them.
SAID_ELSEWHERE = {"multipleOf", "additionalItems", "then", "else", "minContains", "maxContains"}
ANNOTATIONS = {
    *("$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", "$comment", "$defs"),
    *("definitions", "id", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
    *("contentEncoding", "contentMediaType", "contentSchema"),
}


def read(schema: dict[str, Any], strict: bool | None = True) -> Any:
    wrapped = {"name": "x", "schema": schema, "strict": strict}
    return response_format("response_format", {"type": "json_schema", "json_schema": wrapped})


def accepts(schema: dict[str, Any], value: Any) -> bool:
    """Whether the grammar lets an answer be this."""
    characters = xgrammar.TokenizerInfo([bytes([byte]) for byte in range(256)] + [b"</s>"], stop_token_ids=[256])
    grammar = xgrammar.GrammarCompiler(characters).compile_json_schema(json.dumps(schema))
    matcher = xgrammar.GrammarMatcher(grammar)
    return matcher.accept_string(json.dumps(value)) and matcher.accept_token(256)


@pytest.mark.parametrize("keyword", FOLLOWED)
def test_what_the_grammar_follows_is_taken(keyword: str) -> None:
    schema, right, wrong = FOLLOWED[keyword]
    assert read(schema) == {"json_schema": json.dumps(schema, separators=(",", ":"))}
    assert accepts(schema, right)
    assert not accepts(schema, wrong)


@pytest.mark.parametrize("keyword", UNFOLLOWED)
def test_what_the_grammar_reads_over_is_refused_by_name(keyword: str) -> None:
    schema = UNFOLLOWED[keyword]
    with pytest.raises(InvalidRequest) as caught:
        read(schema)
    assert caught.value.param == f"{SCHEMA}.{keyword}"
    assert f"'{keyword}'" in caught.value.message
    assert json.loads(read(schema, strict=False)["json_schema"]) == schema
    assert json.loads(read(schema, strict=None)["json_schema"]) == schema


def test_no_keyword_of_any_draft_is_forgotten() -> None:
    drafts = (
        jsonschema.Draft3Validator,
        jsonschema.Draft4Validator,
        jsonschema.Draft6Validator,
        jsonschema.Draft7Validator,
        jsonschema.Draft201909Validator,
        jsonschema.Draft202012Validator,
    )
    known = {keyword for draft in drafts for keyword in draft.VALIDATORS}
    metaschemas = [draft.META_SCHEMA for draft in drafts]
    known |= {keyword for metaschema in metaschemas for keyword in metaschema["properties"]}
    assert known - FOLLOWED.keys() - UNFOLLOWED.keys() - SAID_ELSEWHERE - ANNOTATIONS == set()


@pytest.mark.parametrize("reference", ["http://127.0.0.1:1/x", "other.json#/$defs/a", "#anchor", ""])
def test_a_reference_to_elsewhere_is_refused(reference: str) -> None:
    schema = {"properties": {"a": {"anyOf": [{"type": "null"}, {"$ref": reference}]}}}
    with pytest.raises(InvalidRequest, match=r"'\$ref' at .* is to elsewhere") as caught:
        read(schema)
    assert caught.value.param == f"{SCHEMA}.properties.a.anyOf[1].$ref"


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"properties": {"not": {"not": {}}}}, "properties.not.not"),
        ({"items": {"prefixItems": [{}, {"contains": {}}]}}, "items.prefixItems[1].contains"),
        ({"additionalProperties": {"uniqueItems": True}}, "additionalProperties.uniqueItems"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"not": {}}}}}, "$defs.a.items.not"),
        ({"$ref": "#/x/y", "x": {"y": {"$ref": "#/x/z"}, "z": {"if": True, "else": False}}}, "x.z.if"),
        ({"allOf": [{"$ref": "#"}, {"not": {}}]}, "allOf[1].not"),
    ],
)
def test_the_place_is_named(schema: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(schema)
    assert caught.value.param == f"{SCHEMA}.{place}"


@pytest.mark.parametrize(
    "schema",
    [
        # What OpenAI's pages show.
        {
            "type": "object",
            "properties": {
                "steps": {"type": "array", "items": {"$ref": "#/$defs/step"}},
                "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
                "unit": {"type": ["string", "null"], "description": "not", "enum": ["F", "C"]},
                "name": {"type": "string", "pattern": "^@[a-zA-Z0-9_]+$"},
                "email": {"type": "string", "format": "email"},
                "degrees": {"type": "number", "minimum": -130, "maximum": 130, "multipleOf": 0.5},
            },
            "$defs": {
                "step": {
                    "type": "object",
                    "properties": {"explanation": {"type": "string"}},
                    "required": ["explanation"],
                    "additionalProperties": False,
                }
            },
            "required": ["steps", "next", "unit", "name", "email", "degrees"],
            "additionalProperties": False,
        },
        {"type": "object", "default": {"not": 1}, "examples": [{"not": 1}], "x-not": {"not": {}}, "title": "not"},
        {"type": "object", "$defs": {"unused": {"not": {}}}, "$schema": "https://json-schema.org/draft/2020-12/schema"},
        {"type": "array", "uniqueItems": False, "items": True, "not": False},
        {"if": {"type": "string"}},
        {"then": {"type": "string"}, "dependentRequired": {}},
        {"$ref": "#/nowhere/a"},
    ],
)
def test_what_asks_for_nothing_more_is_taken(schema: dict[str, Any]) -> None:
    assert json.loads(read(schema)["json_schema"]) == schema


def test_a_reference_in_a_ring_is_read_once() -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert json.loads(read(schema)["json_schema"]) == schema


def test_a_text_format_is_as_strict() -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_schema("text.format", {"name": "x", "schema": {"not": {}}, "strict": True})
    assert caught.value.param == "text.format.schema.not"
