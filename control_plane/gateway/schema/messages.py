"""The messages of a chat, as a chat template takes them."""

from __future__ import annotations

from typing import Any

from control_plane.contracts.errors import InvalidRequest
from control_plane.gateway.schema.values import array, invalid, mapping, missing, one_of, string, wrong_type

MAX_MESSAGES = 4096
ROLES = ("system", "developer", "user", "assistant", "tool")

_UNBOUNDED = 2**63
_text = string(_UNBOUNDED)
_name = string(64, may_be_empty=False)
_identifier = string(256, may_be_empty=False)

# What the official client's own message objects carry beside the text, empty as long as no tool was called.
_EMPTY_FIELDS = ("annotations", "audio", "function_call", "name", "refusal", "tool_call_id", "tool_calls")


def read_messages(name: str, value: Any) -> list[dict[str, str]]:
    """Each message as ``role`` and ``content``, with ``name`` and ``tool_call_id`` where they were given.

    Text parts are joined by a line break; an assistant's missing content is empty text. Raises InvalidRequest.
    """
    items = array(name, value, MAX_MESSAGES)
    if not items:
        raise invalid(name, f"Invalid '{name}': expected at least one message.", "empty_array")
    return [_message(f"{name}[{index}]", item) for index, item in enumerate(items)]


def _message(at: str, value: Any) -> dict[str, str]:
    message = mapping(at, value)
    if "role" not in message:
        raise missing(f"{at}.role")
    role = one_of(f"{at}.role", message["role"], ROLES)
    content = message.get("content")
    if content is None:
        if role != "assistant":
            raise (
                missing(f"{at}.content")
                if "content" not in message
                else wrong_type(f"{at}.content", "a string or an array of parts", content)
            )
        content = ""
    read = {"role": role, "content": content if type(content) is str else _parts(f"{at}.content", content)}
    if len(message) > 2:
        for key, item in message.items():
            if key not in ("role", "content") and (extra := _extra(at, role, key, item)) is not None:
                read[key] = extra
    return read


def _extra(at: str, role: str, key: str, item: Any) -> str | None:
    if key in _EMPTY_FIELDS and (item is None or item == []):
        return None
    if key == "name":
        return str(_name(f"{at}.name", item))
    if key == "tool_call_id" and role == "tool":
        return str(_identifier(f"{at}.tool_call_id", item))
    if key in _EMPTY_FIELDS:
        raise _unsupported(f"{at}.{key}")
    raise invalid(at, f"Unrecognized field in '{at}': '{key[:64]}'.", "unknown_parameter")


def _parts(at: str, value: Any) -> str:
    if type(value) is not list:
        raise wrong_type(at, "a string or an array of parts", value)
    if not value:
        raise invalid(at, f"Invalid '{at}': expected at least one part.", "empty_array")
    texts = []
    for index, item in enumerate(value):
        where = f"{at}[{index}]"
        part = mapping(where, item)
        kind = part.get("type")
        if type(kind) is not str:
            raise missing(f"{where}.type") if kind is None else wrong_type(f"{where}.type", "a string", kind)
        if kind != "text":
            raise invalid(f"{where}.type", f"Invalid '{where}.type': this model takes text only.", "unsupported_value")
        if "text" not in part:
            raise missing(f"{where}.text")
        texts.append(_text(f"{where}.text", part["text"]))
        for key in part:
            if key not in ("type", "text"):
                raise invalid(where, f"Unrecognized field in '{where}': '{key[:64]}'.", "unknown_parameter")
    return "\n".join(texts)


def _unsupported(name: str) -> InvalidRequest:
    return invalid(name, f"Unsupported parameter: '{name}' is not supported by this server.", "unsupported_parameter")
