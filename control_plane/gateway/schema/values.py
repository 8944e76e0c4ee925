"""Readers of single values. Each takes the field's name and what came, and gives the value or OpenAI's error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from control_plane.contracts.errors import InvalidRequest

Reader = Callable[[str, Any], Any]

MAX_STOPS = 4
_STOP_LENGTH = 1024
_BIAS_COUNT = 1024

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


def decimal(low: float, high: float, *, above_low: bool = False) -> Reader:
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

    return read


def integer(low: int, high: int) -> Reader:
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

    return read


def boolean(name: str, value: Any) -> bool:
    if type(value) is not bool:
        raise wrong_type(name, "a boolean", value)
    return value


def string(max_length: int, *, may_be_empty: bool = True) -> Reader:
    def read(name: str, value: Any) -> str:
        if type(value) is not str:
            raise wrong_type(name, "a string", value)
        if not value and not may_be_empty:
            raise invalid(name, f"Invalid value for '{name}': expected a string that is not empty.", "empty_string")
        if len(value) > max_length:
            raise invalid(
                name,
                f"Invalid value for '{name}': expected a string of at most {max_length} characters.",
                "string_above_max_length",
            )
        return value

    return read


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


def stop_strings(name: str, value: Any) -> tuple[str, ...]:
    """One string or up to four, none of them empty."""
    read = string(_STOP_LENGTH, may_be_empty=False)
    if type(value) is str:
        return (read(name, value),)
    if type(value) is not list:
        raise wrong_type(name, "a string or an array of strings", value)
    return tuple(read(name, item) for item in array(name, value, MAX_STOPS))


def token_ids(name: str, value: Any) -> tuple[int, ...]:
    read = integer(0, 2**31 - 1)
    return tuple(read(name, item) for item in array(name, value, 64))


def logit_bias(name: str, value: Any) -> dict[int, float]:
    """Token id (as a string) to a bias from -100 to 100; whether the model has the id is checked when it is known."""
    entries = mapping(name, value)
    if len(entries) > _BIAS_COUNT:
        raise invalid(
            name, f"Invalid value for '{name}': expected at most {_BIAS_COUNT} tokens.", "object_above_max_properties"
        )
    read = decimal(-100, 100)
    biases = {}
    for key, bias in entries.items():
        if not (key.isascii() and key.isdigit() and len(key) < 10):
            raise invalid(name, f"Invalid value for '{name}': its names must be token ids.", "invalid_value")
        biases[int(key)] = read(name, bias)
    return biases
