"""Fields: how a single value is read, and the JSON Schema of what is read.

One says both, so that the document of the API and the checks cannot come apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from control_plane.contracts.errors import InvalidRequest

Reader = Callable[[str, Any], Any]
"""Takes the field's name and what came, and gives the value or OpenAI's error."""

Schema = Mapping[str, Any]
"""A JSON Schema (draft 2020-12, as OpenAPI 3.1 has it)."""

MAX_STOPS = 4
_STOP_LENGTH = 1024
_BIAS_COUNT = 1024
_MAX_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a body; it is called as its reader is. ``about`` is what the document says of it."""

    read: Reader
    schema: Schema
    about: str = ""

    def __call__(self, name: str, value: Any) -> Any:
        return self.read(name, value)


_KINDS = {
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
    str: "a string",
    list: "an array",
    dict: "an object",
}


def kind_of(value: Any) -> str:
    return _KINDS.get(type(value), "null")


def invalid(name: str, message: str, code: str) -> InvalidRequest:
    return InvalidRequest(message, param=name, code=code)


def wrong_type(name: str, expected: str, value: Any) -> InvalidRequest:
    return invalid(
        name, f"Invalid type for '{name}': expected {expected}, but got {kind_of(value)} instead.", "invalid_type"
    )


def missing(name: str) -> InvalidRequest:
    return invalid(name, f"Missing required parameter: '{name}'.", "missing_required_parameter")


def decimal(low: float, high: float, *, above_low: bool = False, about: str = "") -> Field:
    """A finite number from ``low`` to ``high``, ``low`` itself excluded where ``above_low``."""

    def read(name: str, value: Any) -> float:
        if type(value) is not float and type(value) is not int:
            raise wrong_type(name, "a decimal", value)
        # An integer that no float can hold compares with one all the same.
        if value < low or (above_low and value <= low) or value != value:
            bound = f"> {low:g}" if above_low else f">= {low:g}"
            raise invalid(name, f"Invalid value for '{name}': expected a decimal {bound}.", "decimal_below_min_value")
        if value > high:
            raise invalid(
                name, f"Invalid value for '{name}': expected a decimal <= {high:g}.", "decimal_above_max_value"
            )
        return float(value)

    lowest = "exclusiveMinimum" if above_low else "minimum"
    return Field(read, {"type": "number", lowest: low, "maximum": high}, about)


def integer(low: int, high: int, about: str = "") -> Field:
    def read(name: str, value: Any) -> int:
        if type(value) is not int:
            raise wrong_type(name, "an integer", value)
        if value < low:
            raise invalid(name, f"Invalid value for '{name}': expected an integer >= {low}.", "integer_below_min_value")
        if value > high:
            raise invalid(
                name, f"Invalid value for '{name}': expected an integer <= {high}.", "integer_above_max_value"
            )
        return value

    return Field(read, {"type": "integer", "minimum": low, "maximum": high}, about)


def _boolean(name: str, value: Any) -> bool:
    if type(value) is not bool:
        raise wrong_type(name, "a boolean", value)
    return value


boolean = Field(_boolean, {"type": "boolean"})


def string(max_length: int | None = None, *, may_be_empty: bool = True, about: str = "") -> Field:
    """Text of at most ``max_length`` characters; None: as much as a body holds."""

    def read(name: str, value: Any) -> str:
        if type(value) is not str:
            raise wrong_type(name, "a string", value)
        if not value and not may_be_empty:
            raise invalid(name, f"Invalid value for '{name}': expected a string that is not empty.", "empty_string")
        if max_length is not None and len(value) > max_length:
            raise invalid(
                name,
                f"Invalid value for '{name}': expected a string of at most {max_length} characters.",
                "string_above_max_length",
            )
        return value

    lengths = {"minLength": 0 if may_be_empty else 1, "maxLength": max_length}
    return Field(read, {"type": "string"} | {key: length for key, length in lengths.items() if length}, about)


def mapping(name: str, value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise wrong_type(name, "an object", value)
    return value


def array(name: str, value: Any, max_items: int) -> list[Any]:
    if type(value) is not list:
        raise wrong_type(name, "an array", value)
    if len(value) > max_items:
        raise invalid(
            name,
            f"Invalid value for '{name}': expected an array of at most {max_items} items, but got {len(value)}.",
            "array_above_max_length",
        )
    return value


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    if type(value) is not str:
        raise wrong_type(name, "a string", value)
    if value not in allowed:
        raise invalid(
            name,
            f"Invalid value for '{name}': supported values are {', '.join(repr(word) for word in allowed)}.",
            "invalid_value",
        )
    return value


def finite(value: Any) -> bool:
    """Whether every number in the value is one that JSON can say again: ``1e400`` is read as infinity."""
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list):
        return all(map(finite, value))
    return type(value) is not float or math.isfinite(value)


def only_fields(at: str, value: dict[str, Any], known: tuple[str, ...]) -> None:
    """Refuse by name what an object has beside the fields that are known."""
    for key in value:
        if key not in known:
            raise invalid(at, f"Unrecognized field in '{at}': '{key[:64]}'.", "unknown_parameter")


_stop = string(_STOP_LENGTH, may_be_empty=False)
_token_id = integer(0, _MAX_INT32)
_bias = decimal(-100, 100)


def _stop_strings(name: str, value: Any) -> tuple[str, ...]:
    if type(value) is str:
        return (_stop(name, value),)
    if type(value) is not list:
        raise wrong_type(name, "a string or an array of strings", value)
    return tuple(_stop(name, item) for item in array(name, value, MAX_STOPS))


def _token_ids(name: str, value: Any) -> tuple[int, ...]:
    return tuple(_token_id(name, item) for item in array(name, value, 64))


def _logit_bias(name: str, value: Any) -> dict[int, float]:
    entries = mapping(name, value)
    if len(entries) > _BIAS_COUNT:
        raise invalid(
            name, f"Invalid value for '{name}': expected at most {_BIAS_COUNT} tokens.", "object_above_max_properties"
        )
    biases = {}
    for key, bias in entries.items():
        if not (key.isascii() and key.isdigit() and len(key) < 10):
            raise invalid(name, f"Invalid value for '{name}': its names must be token ids.", "invalid_value")
        biases[int(key)] = _bias(name, bias)
    return biases


stop_strings = Field(
    _stop_strings,
    {"anyOf": [_stop.schema, {"type": "array", "items": _stop.schema, "maxItems": MAX_STOPS}]},
    "One string or up to four; none of them is in the answer.",
)

token_ids = Field(_token_ids, {"type": "array", "items": _token_id.schema, "maxItems": 64})

# Whether the model has the id is checked when the model is known.
logit_bias = Field(
    _logit_bias,
    {
        "type": "object",
        "propertyNames": {"pattern": "^[0-9]{1,9}$"},
        "additionalProperties": _bias.schema,
        "maxProperties": _BIAS_COUNT,
    },
    "Token id to a bias.",
)
