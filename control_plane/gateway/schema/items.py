"""Messages as the Responses and Conversations APIs have them: items with typed parts."""

from __future__ import annotations

from typing import Any

from control_plane.contracts.conversation import Item
from control_plane.gateway.schema.thread import KEPT_ROLES, new_id
from control_plane.gateway.schema.values import Schema, array, invalid, mapping, missing, one_of, string, wrong_type

_text = string()
_PARTS = ("input_text", "output_text", "text")

# What an item has that was made here and is sent back.
_ECHOED = ("id", "status", "phase", "turn")
_ECHOED_IN_PARTS = ("annotations", "logprobs")


def read_items(name: str, value: Any, most: int) -> list[Item]:
    """Each message with a new id. Raises InvalidRequest."""
    items = array(name, value, most)
    if not items:
        raise invalid(name, f"Invalid '{name}': expected at least one item.", "empty_array")
    return [_item(f"{name}[{index}]", item) for index, item in enumerate(items)]


def _item(at: str, value: Any) -> Item:
    item = mapping(at, value)
    kind = item.get("type", "message")
    if kind != "message":
        if type(kind) is not str:
            raise wrong_type(f"{at}.type", "a string", kind)
        raise invalid(f"{at}.type", f"Invalid '{at}.type': only messages are supported.", "unsupported_value")
    for key in ("role", "content"):
        if item.get(key) is None:
            raise missing(f"{at}.{key}")
    for key in item:
        if key not in ("type", "role", "content", *_ECHOED):
            raise invalid(f"{at}.{key[:64]}", f"Unknown parameter: '{at}.{key[:64]}'.", "unknown_parameter")
    role = one_of(f"{at}.role", item["role"], KEPT_ROLES)
    content = item["content"]
    text = content if type(content) is str else _parts(f"{at}.content", content)
    return Item(new_id("msg"), role, text)


def _parts(at: str, value: Any) -> str:
    if type(value) is not list:
        raise wrong_type(at, "a string or an array of parts", value)
    texts = []
    for index, entry in enumerate(value):
        where = f"{at}[{index}]"
        part = mapping(where, entry)
        kind = part.get("type")
        if kind is None:
            raise missing(f"{where}.type")
        if kind not in _PARTS:
            raise invalid(f"{where}.type", f"Invalid '{where}.type': text only is supported.", "unsupported_value")
        if part.get("text") is None:
            raise missing(f"{where}.text")
        texts.append(_text(f"{where}.text", part["text"]))
        for key in part:
            if key not in ("type", "text", *_ECHOED_IN_PARTS):
                raise invalid(f"{where}.{key[:64]}", f"Unknown parameter: '{where}.{key[:64]}'.", "unknown_parameter")
    return "\n".join(texts)


_PART = {
    "type": "object",
    "required": ["type", "text"],
    "properties": {"type": {"enum": list(_PARTS)}, "text": _text.schema, **{key: {} for key in _ECHOED_IN_PARTS}},
    "additionalProperties": False,
}

ITEM: Schema = {
    "type": "object",
    "required": ["role", "content"],
    "properties": {
        "type": {"const": "message"},
        "role": {"enum": list(KEPT_ROLES)},
        "content": {"anyOf": [_text.schema, {"type": "array", "items": _PART}]},
        **{key: {} for key in _ECHOED},
    },
    "additionalProperties": False,
}
"""Of one message that is sent."""
