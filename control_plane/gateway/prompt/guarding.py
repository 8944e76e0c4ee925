"""The callers' texts inside tools and their calls, and how they are kept from being control.

Both are what JSON is: objects, lists, text and numbers. Every text in them is the caller's, names of objects too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from control_plane.gateway.prompt.control_text import ControlText

# Templates compare with these (``parameter.type == "object"``), so that they have to see them as they are. They are
# safe beside guarded text, as long as none of them is control by itself.
_SCHEMA_WORDS = frozenset(
    (
        "type",
        "function",
        "name",
        "description",
        "parameters",
        "arguments",
        "id",
        "object",
        "string",
        "integer",
        "number",
        "boolean",
        "array",
        "null",
        "properties",
        "required",
        "items",
        "enum",
        "const",
        "default",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "additionalProperties",
        "format",
        "pattern",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
        "title",
    )
)


def texts_of(value: Any) -> Iterator[str]:
    """Every text in the value, names of objects too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)


def guarded(value: Any, control: ControlText, nonce: str) -> Any:
    """The value with every text guarded. Raises InvalidRequest for a text that cannot be."""
    if isinstance(value, str):
        bare = value in _SCHEMA_WORDS and len(control.split(value)) == 1
        return value if bare else control.guard(value, nonce)
    if isinstance(value, dict):
        return {guarded(name, control, nonce): guarded(item, control, nonce) for name, item in value.items()}
    if isinstance(value, list):
        return [guarded(item, control, nonce) for item in value]
    return value
