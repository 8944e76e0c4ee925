"""Tables of TOML as frozen dataclasses, by their type hints; what is wrong is told by its key path."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

from control_plane.contracts.toml_places import KeyPath
from lessons.faults import nearest

T = TypeVar("T")
Blame = Callable[[KeyPath, str], None]

_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def read_table(cls: type[T], raw: Any, path: KeyPath, blame: Blame, besides: Sequence[str] = ()) -> T | None:
    """The dataclass out of a table, None where something is wrong with it. ``besides`` are keys that others read."""
    if not isinstance(raw, Mapping):
        blame(path, "a table is needed")
        return None
    assert is_dataclass(cls)
    hints = {name: hint for name, hint in typing.get_type_hints(cls).items() if name not in _constants(cls)}
    sound = True

    def told(where: KeyPath, message: str) -> None:
        nonlocal sound
        sound = False
        blame(where, message)

    for name in raw:
        if name not in hints and name not in besides:
            told((*path, name), f"unknown key {name!r}; {nearest(name, [*besides, *hints])}")
    values = {name: _value(hint, raw[name], (*path, name), told) for name, hint in hints.items() if name in raw}
    for field in fields(cls):
        if field.name not in raw and field.default is MISSING and field.default_factory is MISSING:
            told(path, f"{field.name} is missing")
    return cls(**values) if sound else None


def _constants(cls: type) -> set[str]:
    return {name for name, hint in typing.get_type_hints(cls).items() if typing.get_origin(hint) is typing.ClassVar}


def _value(hint: Any, raw: Any, path: KeyPath, blame: Blame) -> Any:
    origin, parameters = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType or origin is typing.Union:
        return _either([each for each in parameters if each is not types.NoneType], raw, path, blame)
    if origin is typing.Literal:
        if raw not in parameters:
            blame(path, f"{raw!r} is none of these; {nearest(str(raw), map(str, parameters))}")
        return raw
    if origin is tuple:
        if not isinstance(raw, list):
            blame(path, "a list is needed")
            return ()
        return tuple(_value(parameters[0], each, (*path, index), blame) for index, each in enumerate(raw))
    if is_dataclass(hint):
        assert isinstance(hint, type)
        return read_table(hint, raw, path, blame)
    if not isinstance(hint, type):  # Mapping[str, Any]
        if not isinstance(raw, dict):
            blame(path, "a table is needed")
        return raw
    return _plain(hint, raw, path, blame)


def _either(hints: Sequence[Any], raw: Any, path: KeyPath, blame: Blame) -> Any:
    for hint in hints:
        if _fits(hint, raw):
            return _plain(hint, raw, path, blame)
    blame(path, f"{' or '.join(_WORDS[hint] for hint in hints)} is needed")
    return None


def _fits(hint: Any, raw: Any) -> bool:
    if isinstance(raw, bool):
        return hint is bool
    return isinstance(raw, (int, float) if hint is float else hint)


def _plain(hint: Any, raw: Any, path: KeyPath, blame: Blame) -> Any:
    if not _fits(hint, raw):
        blame(path, f"{_WORDS[hint]} is needed, not {raw!r:.40}")
        return None
    return float(raw) if hint is float else raw
