"""The messages of a chat, as a chat template takes them."""

from __future__ import annotations

from typing import Any

from control_plane.contracts.errors import InvalidRequest
from control_plane.gateway.schema.json_text import read_inner_object
from control_plane.gateway.schema.tools import MAX_TOOLS, NAME_PATTERN, function_name
from control_plane.gateway.schema.values import (
    Field,
    array,
    invalid,
    mapping,
    missing,
    one_of,
    only_fields,
    string,
    wrong_type,
)

MAX_MESSAGES = 4096
ROLES = ("system", "developer", "user", "assistant", "tool")

Message = dict[str, Any]

_text = string()
_name = string(64, may_be_empty=False)
_identifier = string(256, may_be_empty=False)

# What the official client's own message objects carry beside the text, empty as long as no tool was called.
_EMPTY_FIELDS = ("annotations", "audio", "function_call", "name", "refusal", "tool_call_id", "tool_calls")


def _messages(name: str, value: Any) -> list[Message]:
    """Each message as ``role`` and ``content``, with ``name``, ``tool_call_id`` and ``tool_calls`` where given.

    Text parts are joined by a line break; an assistant's missing content is empty text. The arguments of a call, which
    are JSON text, become what they say: templates want objects. Raises InvalidRequest.
    """
    items = array(name, value, MAX_MESSAGES)
    if not items:
        raise invalid(name, f"Invalid '{name}': expected at least one message.", "empty_array")
    return [_message(f"{name}[{index}]", item) for index, item in enumerate(items)]


def _message(at: str, value: Any) -> Message:
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
    read: Message = {"role": role, "content": content if type(content) is str else _parts(f"{at}.content", content)}
    if len(message) > 2 or "content" not in message:
        for key, item in message.items():
            if key not in ("role", "content") and (extra := _extra(at, role, key, item)) is not None:
                read[key] = extra
    return read


def _extra(at: str, role: str, key: str, item: Any) -> Any:
    if key in _EMPTY_FIELDS and (item is None or item == []):
        return None
    if key == "name":
        return _name(f"{at}.name", item)
    if key == "tool_call_id" and role == "tool":
        return _identifier(f"{at}.tool_call_id", item)
    if key == "tool_calls" and role == "assistant":
        where = f"{at}.tool_calls"
        return [_tool_call(f"{where}[{index}]", call) for index, call in enumerate(array(where, item, MAX_TOOLS))]
    if key in _EMPTY_FIELDS:
        raise _unsupported(f"{at}.{key}")
    raise invalid(at, f"Unrecognized field in '{at}': '{key[:64]}'.", "unknown_parameter")


def _tool_call(at: str, value: Any) -> dict[str, Any]:
    call = mapping(at, value)
    for key in ("id", "type", "function"):
        if call.get(key) is None:
            raise missing(f"{at}.{key}")
    if _text(f"{at}.type", call["type"]) != "function":
        raise invalid(f"{at}.type", f"Invalid '{at}.type': only 'function' is supported.", "unsupported_value")
    only_fields(at, call, ("id", "type", "function"))
    identifier = _identifier(f"{at}.id", call["id"])
    at = f"{at}.function"
    function = mapping(at, call["function"])
    for key in ("name", "arguments"):
        if function.get(key) is None:
            raise missing(f"{at}.{key}")
    only_fields(at, function, ("name", "arguments"))
    arguments = _text(f"{at}.arguments", function["arguments"])
    read = {
        "name": function_name(f"{at}.name", function["name"]),
        "arguments": read_inner_object(f"{at}.arguments", arguments) if arguments else {},
    }
    return {"id": identifier, "type": "function", "function": read}


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
        only_fields(where, part, ("type", "text"))
    return "\n".join(texts)


def _unsupported(name: str) -> InvalidRequest:
    return invalid(name, f"Unsupported parameter: '{name}' is not supported by this server.", "unsupported_parameter")


_PART = {
    "type": "object",
    "required": ["type", "text"],
    "additionalProperties": False,
    "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
}
_CONTENT = {"anyOf": [{"type": "string"}, {"type": "array", "items": _PART, "minItems": 1}]}
_NOTHING = {"anyOf": [{"type": "null"}, {"type": "array", "maxItems": 0}]}
_EMPTY = dict.fromkeys(_EMPTY_FIELDS, _NOTHING)
_TOOL_CALL = {
    "type": "object",
    "required": ["id", "type", "function"],
    "additionalProperties": False,
    "properties": {
        "id": _identifier.schema,
        "type": {"const": "function"},
        "function": {
            "type": "object",
            "required": ["name", "arguments"],
            "additionalProperties": False,
            "properties": {
                "name": {"type": "string", "pattern": NAME_PATTERN},
                "arguments": {"type": "string", "contentMediaType": "application/json"},
            },
        },
    },
}


def _of(roles: tuple[str, ...], content: Any, required: list[str], **more: Any) -> dict[str, Any]:
    properties = {"role": {"enum": list(roles)}, "content": content, **_EMPTY, **more}
    return {"type": "object", "required": required, "additionalProperties": False, "properties": properties}


_NAMED = {"name": {"anyOf": [_name.schema, _NOTHING]}}

messages = Field(
    _messages,
    {
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_MESSAGES,
        "items": {
            "anyOf": [
                _of(("system", "developer", "user"), _CONTENT, ["role", "content"], **_NAMED),
                _of(
                    ("assistant",),
                    {"anyOf": [*_CONTENT["anyOf"], {"type": "null"}]},
                    ["role"],
                    tool_calls={"anyOf": [{"type": "array", "items": _TOOL_CALL, "maxItems": MAX_TOOLS}, _NOTHING]},
                    **_NAMED,
                ),
                _of(
                    ("tool",),
                    _CONTENT,
                    ["role", "content"],
                    tool_call_id={"anyOf": [_identifier.schema, _NOTHING]},
                    **_NAMED,
                ),
            ]
        },
    },
    "The conversation; what a template does not read is refused, not dropped.",
)
