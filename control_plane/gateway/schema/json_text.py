"""A request body to a JSON object, more strictly than ``json`` reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from json.decoder import py_scanstring  # type: ignore[attr-defined]
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any, NoReturn

from control_plane.contracts.errors import InvalidRequest

_MAX_DEPTH = 64
_MAX_VALUES = 262_144
_MAX_CONTAINERS = 32_768
_MAX_QUOTES = 131_072
_MANY_VALUES = 32_768
_MANY_ESCAPES = 131_072
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_object(body: bytes | bytearray) -> dict[str, Any]:
    """The object that the body is.

    UTF-8 only, no ``NaN`` or ``Infinity``, no lone surrogates (they are no text), at most 64 levels deep. A name that
    comes twice counts as it does last. The message of an error never repeats the body. Raises InvalidRequest.

    In a thread, it keeps the interpreter from others for ten milliseconds at most, whatever the body is.
    """
    _check_size(body)
    try:
        value = _decoder(body)(body.decode())
    except UnicodeDecodeError:
        raise _invalid("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise _invalid(f"{error.msg}: line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise _invalid("it is nested too deeply") from None
    except ValueError:
        raise _invalid("a number in it has too many digits") from None
    if not isinstance(value, dict):
        raise InvalidRequest("The request body must be a JSON object.", code="invalid_type")
    if _openings(body) > _MAX_DEPTH:
        _check_depth(value)
    if _ESCAPED_SURROGATE.search(body) is not None:
        _check_text(value)
    return value


def read_inner_object(name: str, text: str) -> dict[str, Any]:
    """The object that a string of a body is, under the same rules. Raises InvalidRequest for the field ``name``."""
    try:
        return read_object(text.encode())
    except InvalidRequest:
        raise InvalidRequest(f"Invalid '{name}': it must be a JSON object.", param=name, code="invalid_json") from None


def _reject_constant(name: str) -> NoReturn:
    raise _invalid(f"{name} is not JSON")


class _Patient(json.JSONDecoder):
    """Ten times slower than ``json`` itself, which lets nothing else run before it is done."""

    def __init__(self) -> None:
        super().__init__(parse_constant=_reject_constant)
        self.scan_once = py_make_scanner(self)


class _MorePatient(_Patient):
    """For text of nothing but escapes."""

    def __init__(self) -> None:
        super().__init__()
        self.parse_string = py_scanstring
        self.scan_once = py_make_scanner(self)


_fast = json.JSONDecoder(parse_constant=_reject_constant).decode
_patient = _Patient().decode
_more_patient = _MorePatient().decode


def _decoder(body: bytes | bytearray) -> Callable[[str], Any]:
    if len(body) <= _MANY_VALUES:
        return _fast
    if body.count(b"\\") > _MANY_ESCAPES:
        return _more_patient
    return _patient if body.count(b",") + _openings(body) > _MANY_VALUES else _fast


def _invalid(why: str) -> InvalidRequest:
    return InvalidRequest(f"The request body is not valid JSON: {why}.", code="invalid_json")


def _check_depth(root: Any) -> None:
    level = [root]
    for _ in range(_MAX_DEPTH):
        level = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, (dict, list))
        ]
        if not level:
            return
    raise _invalid("it is nested too deeply")


def _check_text(value: Any) -> None:
    try:
        for text in _texts(value):
            if not text.isascii():
                text.encode()
    except UnicodeEncodeError:
        raise _invalid("it has a lone surrogate, which is no character") from None


def _texts(value: Any) -> Iterator[str]:
    """Every text in the value, names of objects too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _check_size(body: bytes | bytearray) -> None:
    """Bound what decoding costs: it cannot be interrupted, and everyone's stream waits for it."""
    if body.count(b",") <= _MAX_VALUES and _openings(body) <= _MAX_CONTAINERS:
        return
    quoted = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if quoted.count(b'"') <= _MAX_QUOTES:
        bare = b"".join(quoted.split(b'"')[::2])
        if bare.count(b",") <= _MAX_VALUES and _openings(bare) <= _MAX_CONTAINERS:
            return
    raise _invalid("it has too many values")


def _openings(body: bytes | bytearray) -> int:
    return body.count(b"[") + body.count(b"{")
