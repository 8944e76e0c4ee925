"""``response_format``: text, any JSON object, or JSON by a schema."""

from __future__ import annotations

import json
from typing import Any

from control_plane.gateway.schema.strict_schema import check_followed
from control_plane.gateway.schema.values import (
    Field,
    Schema,
    boolean,
    finite,
    invalid,
    mapping,
    missing,
    one_of,
    only_fields,
    string,
)

_MAX_SCHEMA = 64 * 1024
_MAX_ITEMS = 16 * 1024
_ITEM_COUNTS = ("minItems", "maxItems", "minContains", "maxContains")
_encode = json.JSONEncoder(separators=(",", ":")).iterencode
_TYPES = ("text", "json_object", "json_schema")
_WRAPPER = {"name": string(64, may_be_empty=False), "description": string(4096), "strict": boolean}


def _response_format(name: str, value: Any) -> dict[str, Any]:
    """The fields of ``Sampling`` that it sets: none, ``json_object`` or ``json_schema``. Raises InvalidRequest."""
    chosen = mapping(name, value)
    if chosen.get("type") is None:
        raise missing(f"{name}.type")
    kind = one_of(f"{name}.type", chosen["type"], _TYPES)
    only_fields(name, chosen, ("type", kind))
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"json_object": True}
    return {"json_schema": read_schema(f"{name}.json_schema", chosen.get("json_schema"))}


def read_schema(at: str, value: Any) -> str:
    """The schema in its wrapper of a name and more, as JSON text. Raises InvalidRequest."""
    if value is None:
        raise missing(at)
    wrapper = mapping(at, value)
    only_fields(at, wrapper, ("name", "schema", "description", "strict"))
    for key in ("name", "schema"):
        if wrapper.get(key) is None:
            raise missing(f"{at}.{key}")
    for key, read in _WRAPPER.items():
        if wrapper.get(key) is not None:
            read(f"{at}.{key}", wrapper[key])
    schema = mapping(f"{at}.schema", wrapper["schema"])
    if not finite(schema):
        raise invalid(f"{at}.schema", "A number in the schema is too large.", "invalid_value")
    if not _few_items(schema):
        raise invalid(
            f"{at}.schema",
            f"The arrays of a schema may have {_MAX_ITEMS} items in all, as its 'minItems' and 'maxItems' say.",
            "integer_above_max_value",
        )
    text = ""
    # Piece by piece: all at once, a long one would keep the interpreter from everyone else.
    for piece in _encode(schema):
        text += piece
        if len(text) > _MAX_SCHEMA:
            raise invalid(
                f"{at}.schema", f"The schema is longer than {_MAX_SCHEMA} characters.", "string_above_max_length"
            )
    if wrapper.get("strict"):
        check_followed(f"{at}.schema", schema)
    return text


def _few_items(schema: dict[str, Any]) -> bool:
    """Whether a grammar of it fits into memory. llguidance, which vLLM takes for what xgrammar cannot follow, writes an
    array out item by item, some 100 bytes for each that it may have: one large number in a schema would be the end of
    the engine. Wherever such a name stands it counts, also where it is data: what is a schema and what is not depends
    on who reads it."""
    items: float = 0
    stack: list[Any] = [schema]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            counts = (value.get(name) for name in _ITEM_COUNTS)
            items += sum(min(abs(count), _MAX_ITEMS + 1) for count in counts if isinstance(count, (int, float)))
            if items > _MAX_ITEMS:
                return False
            stack += value.values()
        elif isinstance(value, list):
            stack += value
    return True


_SCHEMA_FIELDS = {
    "name": _WRAPPER["name"].schema,
    "schema": {"type": "object"},
    "description": {"anyOf": [_WRAPPER["description"].schema, {"type": "null"}]},
    "strict": {"type": ["boolean", "null"]},
}


def _of(kind: str, *optional: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["type", *(name for name in more if name not in optional)],
        "additionalProperties": False,
        "properties": {"type": {"const": kind}, **more},
    }


_PLAIN = (_of("text"), _of("json_object"))

response_format = Field(
    _response_format,
    {
        "anyOf": [
            *_PLAIN,
            _of(
                "json_schema",
                json_schema={
                    "type": "object",
                    "required": ["name", "schema"],
                    "additionalProperties": False,
                    "properties": _SCHEMA_FIELDS,
                },
            ),
        ]
    },
    f"The answer's shape; a schema is at most {_MAX_SCHEMA} characters, and {_MAX_ITEMS} items of arrays.",
)

TEXT_FORMAT: Schema = {"anyOf": [*_PLAIN, _of("json_schema", "description", "strict", **_SCHEMA_FIELDS)]}
"""The same as the Responses API has it: without the wrapper."""
