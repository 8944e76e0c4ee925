"""``response_format``: text, any JSON object, or JSON by a schema."""

from __future__ import annotations

import json
from typing import Any

from control_plane.gateway.schema.values import boolean, invalid, mapping, missing, one_of, string

_MAX_SCHEMA = 64 * 1024
_TYPES = ("text", "json_object", "json_schema")
_read_schema_name = string(64, may_be_empty=False)
_read_description = string(4096)


def read_response_format(name: str, value: Any) -> dict[str, Any]:
    """The fields of ``Sampling`` that it sets: none, ``json_object`` or ``json_schema``. Raises InvalidRequest."""
    chosen = mapping(name, value)
    if chosen.get("type") is None:
        raise missing(f"{name}.type")
    kind = one_of(f"{name}.type", chosen["type"], _TYPES)
    for key in chosen:
        if key != "type" and key != kind:
            raise invalid(name, f"Unrecognized field in '{name}': '{key[:64]}'.", "unknown_parameter")
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"json_object": True}
    return {"json_schema": _schema(f"{name}.json_schema", chosen.get("json_schema"))}


def _schema(at: str, value: Any) -> str:
    if value is None:
        raise missing(at)
    wrapper = mapping(at, value)
    for key, item in wrapper.items():
        if key == "name":
            _read_schema_name(f"{at}.name", item)
        elif key == "description" and item is not None:
            _read_description(f"{at}.description", item)
        elif key == "strict" and item is not None:
            boolean(f"{at}.strict", item)
        elif key not in ("schema", "description", "strict"):
            raise invalid(at, f"Unrecognized field in '{at}': '{key[:64]}'.", "unknown_parameter")
    for key in ("name", "schema"):
        if wrapper.get(key) is None:
            raise missing(f"{at}.{key}")
    schema = mapping(f"{at}.schema", wrapper["schema"])
    try:
        text = json.dumps(schema, separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise invalid(f"{at}.schema", "A number in the schema is too large.", "invalid_value") from None
    if len(text) > _MAX_SCHEMA:
        raise invalid(f"{at}.schema", f"The schema is longer than {_MAX_SCHEMA} characters.", "string_above_max_length")
    return text
