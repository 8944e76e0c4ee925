"""A small JSON value that follows a schema: what an engine without a model answers where one would be held to it.

What is read are the keywords that say what a value is: ``type``, ``enum``, ``const``, ``properties``, ``required``,
``items``, bounds, references and combinations. Those that only a search could satisfy are refused by name. Of ``oneOf``
the first that can be followed is, as by vLLM's grammars.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any, Final

from control_plane.contracts.errors import InvalidRequest

_PARAM: Final = "response_format"
_MOST_VALUES: Final = 4096
_MOST_CHARACTERS: Final = 16_384
_DEEPEST: Final = 48

_REFUSED: Final = (
    "$dynamicRef",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "not",
    "pattern",
    "patternProperties",
    "propertyNames",
    "then",
)

_FORMATS: Final = {
    "date": "2000-01-01",
    "date-time": "2000-01-01T00:00:00Z",
    "duration": "P1D",
    "email": "a@example.com",
    "hostname": "example.com",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "time": "00:00:00Z",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}

_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "object": ("properties", "required", "additionalProperties", "minProperties", "maxProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "string": ("minLength", "maxLength", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}

Word = Callable[[], str]


def any_object(word: Word) -> str:
    """The text of a JSON object."""
    return json.dumps({"answer": f"{word()} {word()}"})


def value_of(schema_text: str, word: Word) -> str:
    """The text of a value that follows the schema, which is JSON; ``word`` gives one for each string.

    Raises InvalidRequest that names what cannot be followed.
    """
    try:
        value = _Maker(json.loads(schema_text), word).make()
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        raise InvalidRequest("this is no JSON schema that this engine can read", param=_PARAM) from None
    text = ""
    for piece in json.JSONEncoder().iterencode(value):
        text += piece
        if len(text) > _MOST_CHARACTERS:
            raise _cannot(f"more than {_MOST_CHARACTERS} characters")
    return text


def _cannot(what: str) -> InvalidRequest:
    return InvalidRequest(f"this engine has no model, and cannot follow {what} of a JSON schema", param=_PARAM)


class _Maker:
    def __init__(self, root: Any, word: Word) -> None:
        self._root = root
        self._word = word
        self._looked = 0

    def make(self) -> Any:
        return self._value(self._root, 0)

    def _value(self, schema: Any, depth: int) -> Any:
        self._count(depth)
        if schema is True:
            return {}
        if schema is False:
            raise _cannot("'false', which nothing follows,")
        if not isinstance(schema, dict):
            raise _cannot("what is neither an object nor a boolean")
        for choice in self._choices(self._whole(schema, depth), depth):
            return choice
        raise _cannot("any branch of 'anyOf' or 'oneOf'")

    def _count(self, depth: int = 0) -> None:
        """Once for each part of a schema that is looked at, again and again where it is referred to."""
        self._looked += 1
        if depth > _DEEPEST:
            raise _cannot(f"more than {_DEEPEST} levels")
        if self._looked > _MOST_VALUES:
            raise _cannot(f"more than {_MOST_VALUES} values")

    def _choices(self, schema: dict[str, Any], depth: int) -> Iterator[Any]:
        """A value of each branch that can be followed."""
        for name in ("anyOf", "oneOf"):
            if name not in schema:
                continue
            rest = {key: value for key, value in schema.items() if key != name}
            for branch in schema[name]:
                try:
                    yield self._value(branch if not rest else {"allOf": [rest, branch]}, depth + 1)
                except InvalidRequest:
                    continue
            return
        yield self._plain(schema, depth)

    def _whole(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        """With what it refers to, and all of ``allOf``, in one."""
        self._count(depth)
        for key in schema:
            if key in _REFUSED:
                raise _cannot(f"'{key}'")
        found = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
        parts = [self._referred(schema["$ref"])] if "$ref" in schema else []
        for part in [*parts, *schema.get("allOf", ())]:
            _merge(found, self._inner(part, depth))
        return found

    def _inner(self, schema: Any, depth: int) -> dict[str, Any]:
        if schema is True:
            return {}
        if not isinstance(schema, dict):
            raise _cannot("'false', which nothing follows,")
        return self._whole(schema, depth + 1)

    def _referred(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise _cannot("a '$ref' to elsewhere")
        found = self._root
        for part in reference.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise _cannot("a '$ref' to nothing")
            found = found[name]
        return found

    def _plain(self, schema: dict[str, Any], depth: int) -> Any:
        kinds = self._kinds(schema)
        if "const" in schema or "enum" in schema:
            if self._meant(schema):
                raise _cannot("'const' or 'enum' beside bounds")
            listed = [schema["const"]] if "const" in schema else schema["enum"]
            for value in listed:
                if (not kinds or any(_is(value, kind) for kind in kinds)) and value in schema.get("enum", [value]):
                    return value
            raise _cannot("'const' or 'enum' of another type")
        make: dict[str, Callable[[dict[str, Any], int], Any]] = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
            "number": self._number,
            "integer": self._number,
            "boolean": lambda _, __: True,
            "null": lambda _, __: None,
        }
        for kind in kinds or self._meant(schema):
            if kind not in make:
                raise _cannot(f"'type' {str(kind)[:32]!r}")
            return make[kind](schema | {"type": kind}, depth)
        return {}

    def _kinds(self, schema: dict[str, Any]) -> list[Any]:
        kind = schema.get("type")
        return [] if kind is None else kind if isinstance(kind, list) else [kind]

    def _meant(self, schema: dict[str, Any]) -> list[str]:
        """The types that it has something to say of: it says nothing of values of any other, but they look odd."""
        return [kind for kind, words in _KINDS.items() if any(word in schema for word in words)]

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties", True)
        names = list(dict.fromkeys(schema.get("required", ())))
        least = _whole_number(schema, "minProperties", 0)
        spare = [name for name in properties if name not in names]
        while len(names) < least and spare:
            names.append(spare.pop(0))
        while len(names) < least:
            self._count()
            names.append(f"more_{len(names)}")
        if len(names) > _whole_number(schema, "maxProperties", len(names)):
            raise _cannot("'maxProperties' with what is required")
        return {name: self._value(properties.get(name, others), depth + 1) for name in names}

    def _array(self, schema: dict[str, Any], depth: int) -> list[Any]:
        first = schema.get("prefixItems", [])
        count = max(0, _whole_number(schema, "minItems", 0))
        if count > _MOST_VALUES:
            raise _cannot(f"more than {_MOST_VALUES} values")
        if count > _whole_number(schema, "maxItems", count):
            raise _cannot("'maxItems' below 'minItems'")
        if schema.get("uniqueItems") and count > 1:
            raise _cannot("'uniqueItems' of more than one item")
        rest = schema.get("items", True)
        return [self._value(first[at] if at < len(first) else rest, depth + 1) for at in range(count)]

    def _string(self, schema: dict[str, Any], depth: int) -> str:
        least = _whole_number(schema, "minLength", 0)
        most = _whole_number(schema, "maxLength", _MOST_CHARACTERS)
        if least > min(most, _MOST_CHARACTERS):
            raise _cannot(f"'minLength' of more than 'maxLength' or {_MOST_CHARACTERS}")
        if (form := schema.get("format")) is not None:
            text = _FORMATS.get(form) if isinstance(form, str) else None
            if text is None or not least <= len(text) <= most:
                raise _cannot(f"'format' {str(form)[:32]!r} with these lengths")
            return text
        text = self._word()
        while len(text) < least:
            text += f" {self._word()}"
        return text[:most]

    def _number(self, schema: dict[str, Any], depth: int) -> float:
        low, high = _bound(schema, "minimum", -math.inf), _bound(schema, "maximum", math.inf)
        above, below = _bound(schema, "exclusiveMinimum", -math.inf), _bound(schema, "exclusiveMaximum", math.inf)
        step = _bound(schema, "multipleOf", 0)
        if schema["type"] == "integer":
            step = step or 1
        if step:
            # The least multiple that is in, or the greatest below nothing at all.
            count = math.ceil(max(low, above) / step) if max(low, above) > -math.inf else 0
            count = min(count, math.floor(min(high, below) / step)) if min(high, below) < math.inf else count
            value: float = count * step
            if value <= above:
                value = (count + 1) * step
            if value >= below:
                value = (count - 1) * step
            if schema["type"] == "integer" and value == int(value):
                value = int(value)
            elif schema["type"] == "integer":
                raise _cannot("'multipleOf' of an integer")
        elif max(low, above) > -math.inf and min(high, below) < math.inf:
            value = (max(low, above) + min(high, below)) / 2
        elif max(low, above) > -math.inf:
            value = max(0.0, max(low, above) + 1)
        else:
            value = min(0.0, min(high, below) - 1)
        if not (low <= value <= high and above < value < below):
            raise _cannot("bounds of a number with nothing between them")
        return value


def _merge(found: dict[str, Any], more: dict[str, Any]) -> None:
    """All that both say, as far as one schema can say it."""
    for one, other in ((found, more), (more, found)):
        if one.get("additionalProperties", True) is not True and other.get("properties", {}).keys() - one.get(
            "properties", {}
        ):
            raise _cannot("'additionalProperties' beside the 'properties' of another part")
    if all("items" in one or "prefixItems" in one for one in (found, more)) and any(
        found.get(key) != more.get(key) for key in ("items", "prefixItems")
    ):
        raise _cannot("'items' of two parts")
    for key, value in more.items():
        if key not in found or found[key] == value:
            found[key] = value
        elif key == "properties":
            both = {name: {"allOf": [found[key][name], value[name]]} for name in found[key] if name in value}
            found[key] = found[key] | value | both
        elif key == "required":
            found[key] = [*found[key], *value]
        elif key in ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"):
            found[key] = max(found[key], value)
        elif key in ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"):
            found[key] = min(found[key], value)
        elif key == "enum":
            found[key] = [item for item in found[key] if item in value]
        elif key == "type":
            found[key] = _common_types(found[key], value)
        elif key in ("anyOf", "oneOf", "const", "items", "prefixItems", "additionalProperties", "multipleOf", "format"):
            raise _cannot(f"two of '{key}' at one place")


def _common_types(one: Any, other: Any) -> list[Any]:
    first, second = ([kinds] if isinstance(kinds, str) else list(kinds) for kinds in (one, other))
    both = [kind for kind in first if kind in second or (kind == "integer" and "number" in second)]
    both += [kind for kind in second if kind == "integer" and "number" in first and kind not in both]
    if not both:
        raise _cannot("two types at one place")
    return both


def _is(value: Any, kind: Any) -> bool:
    if kind == "integer":
        return not isinstance(value, bool) and isinstance(value, int | float) and value == int(value)
    if kind == "number":
        return not isinstance(value, bool) and isinstance(value, int | float)
    types = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    return kind in types and isinstance(value, types[kind])


def _whole_number(schema: dict[str, Any], key: str, otherwise: int) -> int:
    value = schema.get(key, otherwise)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise _cannot(f"this '{key}'")
    return int(value)


def _bound(schema: dict[str, Any], key: str, otherwise: float) -> float:
    value = schema.get(key, otherwise)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _cannot(f"this '{key}'")
    return value
