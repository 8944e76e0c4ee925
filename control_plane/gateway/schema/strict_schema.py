"""A schema whose caller counts on all of it: what no grammar would hold an answer to is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from control_plane.contracts.errors import InvalidRequest
from control_plane.gateway.schema.values import invalid

_UNFOLLOWED: Final[dict[str, Any]] = {
    "$dynamicRef": None,
    "$recursiveRef": None,
    "contains": None,
    "dependencies": {},
    "dependentRequired": {},
    "dependentSchemas": {},
    "disallow": [],
    "divisibleBy": None,
    "extends": {},
    "not": False,
    "uniqueItems": False,
}
"""Each with what asks for nothing. xgrammar reads over them, most of the time without a word; vLLM leaves a schema to
llguidance, which names them, only where it knows that xgrammar would. ``if`` is one of these beside ``then`` or
``else``."""

_NAMED = ("properties", "patternProperties")
_PARTS = (
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "items",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)


def check_followed(at: str, root: dict[str, Any]) -> None:
    """Looks at every part of the schema that an answer would be held to: definitions only where they are referred to.
    What is in none of JSON Schema's drafts says nothing. Raises InvalidRequest, whose param is the part's place."""
    parts: list[tuple[str, Any]] = [(at, root)]
    seen: set[int] = set()
    while parts:
        where, schema = parts.pop()
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        seen.add(id(schema))
        for key, nothing in _UNFOLLOWED.items():
            if key in schema and schema[key] != nothing:
                raise _not_followed(where, key)
        if "if" in schema and ("then" in schema or "else" in schema):
            raise _not_followed(where, "if")
        if isinstance(reference := schema.get("$ref"), str):
            if reference != "#" and not reference.startswith("#/"):
                raise invalid(
                    f"{where}.$ref",
                    f"Invalid schema: the '$ref' at '{where}' is to elsewhere; only '#' and what begins with '#/' is"
                    " followed.",
                    "unsupported_value",
                )
            parts.append(_referred(at, root, reference))
        parts += _parts_of(where, schema)


def _not_followed(where: str, key: str) -> InvalidRequest:
    return invalid(
        f"{where}.{key}",
        f"Invalid schema: '{key}' at '{where}' cannot be followed, as 'strict' asks for.",
        "unsupported_value",
    )


def _parts_of(where: str, schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key in _NAMED:
        if isinstance(named := schema.get(key), dict):
            yield from ((f"{where}.{key}.{name[:64]}", part) for name, part in named.items())
    for key in _PARTS:
        part = schema.get(key)
        if isinstance(part, list):
            yield from ((f"{where}.{key}[{index}]", one) for index, one in enumerate(part))
        else:
            yield f"{where}.{key}", part


def _referred(at: str, root: dict[str, Any], reference: str) -> tuple[str, Any]:
    """What it refers to, None where that is nothing: the engine says so."""
    found: Any = root
    for name in reference.split("/")[1:]:
        if not isinstance(found, dict):
            return at, None
        found = found.get(name)
        at = f"{at}.{name[:64]}"
    return at, found
