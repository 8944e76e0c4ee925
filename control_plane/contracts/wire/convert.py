"""Dataclass ⇄ protobuf by equal field names.

The contract dataclasses and the proto messages name their fields alike, so one walk over the fields converts all of
them. A field that exists on one side only is an error when the pair is first used, not silence. What is made once per
token does not come through here: see ``frames``.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Hashable
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, cast

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

T = TypeVar("T")
M = TypeVar("M", bound=Message)


def to_wire(value: Any, message_type: type[M]) -> M:
    """The message of ``message_type`` that says what the dataclass says; None fields stay unset."""
    message = message_type()
    fill(value, message)
    return message


def fill(value: Any, message: Message) -> None:
    """Like ``to_wire``, into an empty message that exists (a sub-message)."""
    for field in _fields(cast(Hashable, type(value)), message.DESCRIPTOR.full_name):
        item = getattr(value, field.name)
        if item is None:
            continue
        if field.is_map:
            target = getattr(message, field.name)
            for key, entry in item.items():
                if field.is_message:
                    fill(entry, target[key])
                else:
                    target[key] = entry
        elif field.repeated:
            target = getattr(message, field.name)
            if field.is_message:
                for entry in item:
                    fill(entry, target.add())
            else:
                target.extend(item)
        elif field.is_message:
            sub = getattr(message, field.name)
            sub.SetInParent()
            fill(item, sub)
        else:
            setattr(message, field.name, item.value if isinstance(item, Enum) else item)


def from_wire(message: Message, cls: type[T]) -> T:
    """The dataclass of type ``cls`` that says what the message says. Raises ValueError for an enum's value of a newer
    version, and where a part is missing without which there is no such dataclass."""
    values: dict[str, Any] = {}
    for field in _fields(cast(Hashable, cls), message.DESCRIPTOR.full_name):
        if field.has_presence and not message.HasField(field.name):
            if field.optional:
                values[field.name] = None
            elif field.required:
                raise ValueError(f"{message.DESCRIPTOR.name} without {field.name}")
            continue
        raw = getattr(message, field.name)
        if field.is_map:
            values[field.name] = {key: field.read(entry) for key, entry in raw.items()}
        elif field.repeated:
            # Plain values as they are: a prompt has thousands of them.
            values[field.name] = tuple(raw) if field.read is _same else tuple(field.read(entry) for entry in raw)
        else:
            values[field.name] = field.read(raw)
    return cls(**values)


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    name: str
    repeated: bool
    is_map: bool
    is_message: bool
    has_presence: bool
    optional: bool
    required: bool
    read: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


@cache
def _fields(cls: Hashable, message_name: str) -> tuple[_Field, ...]:
    assert isinstance(cls, type)
    descriptor = descriptor_pool.Default().FindMessageTypeByName(message_name)
    hints = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    required = {
        field.name
        for field in dataclasses.fields(cls)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    missing = set(names) ^ {field.name for field in descriptor.fields}
    if missing:
        raise TypeError(f"{cls.__name__} and {message_name} disagree about {', '.join(sorted(missing))}")
    return tuple(_field(name, hints[name], descriptor.fields_by_name[name], name in required) for name in names)


def _field(name: str, hint: Any, descriptor: FieldDescriptor, required: bool) -> _Field:
    optional = False
    if typing.get_origin(hint) in (typing.Union, UnionType):
        kinds = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        optional = len(kinds) < len(typing.get_args(hint))
        hint = kinds[0]
    message = descriptor.message_type
    is_map = message is not None and message.GetOptions().map_entry
    is_message = message is not None
    inner = hint
    if message is not None and is_map:
        inner = typing.get_args(hint)[1]
        is_message = message.fields_by_name["value"].message_type is not None
    elif descriptor.is_repeated:
        inner = typing.get_args(hint)[0]
    read: Callable[[Any], Any] = _same
    if dataclasses.is_dataclass(inner):
        read = _reader(cast(type, inner))
    elif isinstance(inner, type) and issubclass(inner, Enum):
        read = inner
    return _Field(
        name=name,
        repeated=descriptor.is_repeated and not is_map,
        is_map=is_map,
        is_message=is_message,
        has_presence=descriptor.has_presence,
        optional=optional,
        required=required,
        read=read,
    )


def _reader(cls: type[T]) -> Callable[[Message], T]:
    def read(message: Message) -> T:
        return from_wire(message, cls)

    return read
