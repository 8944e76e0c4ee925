"""What a call continues, and whether it is kept."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from control_plane.contracts.conversation import Item
from control_plane.gateway.schema.values import Field, invalid, mapping, string, wrong_type

_id = string(64, may_be_empty=False)

_RESPONSE_ID = re.compile("resp_[0-9a-f]{32}", re.ASCII)
_CHAIN_END = len("resp_") + 16

KEPT_ROLES = ("user", "assistant", "system", "developer")


@dataclass(slots=True)
class Thread:
    """``stored``: whether the call is kept where it has no conversation; one that has is always kept. ``settings`` are
    what a response tells of its request. ``turn_id`` and ``answer_id`` are made here, and no caller's choice."""

    turn_id: str
    conversation_id: str = ""
    previous_id: str = ""
    stored: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    messages: Sequence[Item] = ()
    answer_id: str = field(default_factory=lambda: new_id("msg"))

    @property
    def kept(self) -> bool:
        return self.stored or bool(self.conversation_id)

    @property
    def chain(self) -> str:
        """What it has in common with the responses before and after it; empty where there can be none."""
        return _chain_of(self.turn_id) if self.stored or self.previous_id else ""

    @property
    def continues(self) -> bool:
        """Whether something comes before it."""
        return bool(self.conversation_id or self.previous_id)


def new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(16)}"


def response_id(previous_id: str = "") -> str:
    """Of a new response. Those that follow each other have the first half of their ids in common, so that each tells
    its chain without a look at what is stored."""
    fresh = new_id("resp")
    return _chain_of(previous_id) + fresh[_CHAIN_END:] if _RESPONSE_ID.fullmatch(previous_id) else fresh


def _chain_of(turn_id: str) -> str:
    return turn_id[:_CHAIN_END]


def read_conversation(name: str, value: Any) -> str:
    """An id, by itself or as ``{"id": …}``. Raises InvalidRequest."""
    if type(value) is str:
        return str(_id(name, value))
    if type(value) is not dict:
        raise wrong_type(name, "a conversation's id or an object with it", value)
    for key in mapping(name, value):
        if key != "id":
            raise invalid(f"{name}.{key[:64]}", f"Unknown parameter: '{name}.{key[:64]}'.", "unknown_parameter")
    return str(_id(f"{name}.id", value.get("id")))


_ID = {"type": "string", "minLength": 1, "maxLength": 64}

conversation = Field(
    read_conversation,
    {"anyOf": [_ID, {"type": "object", "required": ["id"], "properties": {"id": _ID}, "additionalProperties": False}]},
    "What is stored comes before what is sent, and both are kept.",
)


def kept_messages(messages: Sequence[dict[str, Any]]) -> list[Item]:
    """The messages of a chat call as items. Raises InvalidRequest for what a conversation cannot keep."""
    items = []
    for index, message in enumerate(messages):
        for key in message:
            if key not in ("role", "content"):
                raise _not_kept(f"messages[{index}].{key}")
        if message["role"] not in KEPT_ROLES:
            raise _not_kept(f"messages[{index}].role")
        items.append(Item(new_id("msg"), message["role"], message["content"]))
    return items


def _not_kept(name: str) -> Exception:
    return invalid(
        name, f"Unsupported value: '{name}' with 'conversation': conversations keep text only.", "unsupported_value"
    )
