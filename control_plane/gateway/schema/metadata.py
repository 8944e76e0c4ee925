"""``metadata``: names and values that callers attach to what is stored."""

from __future__ import annotations

from typing import Any

from control_plane.gateway.schema.values import Field, invalid, mapping, string

MAX_PAIRS = 16
_MAX_NAME = 64
_value = string(512)


def read_metadata(name: str, value: Any) -> dict[str, str]:
    """Raises InvalidRequest."""
    pairs = mapping(name, value)
    if len(pairs) > MAX_PAIRS:
        raise invalid(
            name, f"Invalid '{name}': expected at most {MAX_PAIRS} pairs, but got {len(pairs)}.",
            "object_above_max_properties",
        )  # fmt: skip
    for key, item in pairs.items():
        if len(key) > _MAX_NAME:
            raise invalid(
                name,
                f"Invalid '{name}': its names must have at most {_MAX_NAME} characters.",
                "string_above_max_length",
            )
        _value(f"{name}.{key}", item)
    return pairs


metadata = Field(
    read_metadata,
    {
        "type": "object",
        "propertyNames": {"maxLength": _MAX_NAME},
        "additionalProperties": _value.schema,
        "maxProperties": MAX_PAIRS,
    },
)
