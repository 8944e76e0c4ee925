"""The body of ``/v1/responses``, checked: text in, text out. What else OpenAI has is refused by name."""

from __future__ import annotations

from typing import Any

from control_plane.contracts.conversation import MAX_ITEMS, Item
from control_plane.gateway.schema.generation import Generation
from control_plane.gateway.schema.items import ITEM, read_items
from control_plane.gateway.schema.metadata import metadata
from control_plane.gateway.schema.response_format import TEXT_FORMAT, read_schema
from control_plane.gateway.schema.table import Table
from control_plane.gateway.schema.thread import Thread, conversation, new_id, response_id
from control_plane.gateway.schema.values import (
    Field,
    boolean,
    decimal,
    integer,
    invalid,
    mapping,
    missing,
    one_of,
    string,
    wrong_type,
)

_text = string()
_FORMATS = ("text", "json_object", "json_schema")

TOLD = ("instructions", "max_output_tokens", "metadata", "safety_identifier", "temperature", "text", "top_p", "user")
"""What a response tells of its request, beside what every response has."""


def read_response(body: dict[str, Any]) -> Generation:
    """The call in a body of ``/v1/responses``. Raises InvalidRequest."""
    if "input" in body and body["input"] is None:
        raise wrong_type("input", "a string or an array of messages", None)
    values = RESPONSE.read(body)
    continued, previous = values.get("conversation", ""), values.get("previous_response_id", "")
    if continued and previous:
        raise invalid(
            "previous_response_id",
            "'previous_response_id' and 'conversation' cannot both be set.",
            "invalid_parameter_combination",
        )
    if "stream_options" in values and not values.get("stream"):
        raise invalid("stream_options", "'stream_options' is only allowed when 'stream' is true.", "invalid_value")
    messages: list[Item] = values["input"]
    instructions = values.get("instructions")
    stored = values.get("store", True)
    settings = {name: values[name] for name in TOLD if name in values}
    settings["store"] = stored
    if "text" in values:
        settings["text"] = body["text"]
    sampling = {name: values[name] for name in ("temperature", "top_p") if name in values}
    generation = Generation(
        values["model"],
        sampling | values.get("text", {}),
        values.get("max_output_tokens"),
        "max_output_tokens",
        values.get("stream", False),
    )
    generation.instructions = instructions or ""
    generation.user = values.get("user", "")
    generation.messages = [{"role": item.role, "content": item.text} for item in messages]
    generation.thread = Thread(response_id(previous), continued, previous, stored, settings, messages)
    return generation


def _input(name: str, value: Any) -> list[Item]:
    if type(value) is str:
        return [Item(new_id("msg"), "user", value)]
    if type(value) is not list:
        raise wrong_type(name, "a string or an array of messages", value)
    return read_items(name, value, MAX_ITEMS)


def _format(name: str, value: Any) -> dict[str, Any]:
    """The fields of ``Sampling`` that it sets."""
    sampling: dict[str, Any] = {}
    for key, item in mapping(name, value).items():
        at = f"{name}.{key[:64]}"
        if key == "format" and item is not None:
            sampling = _one_format(at, item)
        elif key not in ("format", "verbosity") or item not in (None, "medium"):
            raise invalid(at, f"Unsupported parameter: '{at}'.", "unsupported_parameter")
    return sampling


def _one_format(at: str, value: Any) -> dict[str, Any]:
    chosen = mapping(at, value)
    if chosen.get("type") is None:
        raise missing(f"{at}.type")
    kind = one_of(f"{at}.type", chosen["type"], _FORMATS)
    rest = {key: item for key, item in chosen.items() if key != "type"}
    if kind == "json_schema":
        return {"json_schema": read_schema(at, rest)}
    if rest:
        raise invalid(at, f"Unrecognized field in '{at}': '{next(iter(rest))[:64]}'.", "unknown_parameter")
    return {"json_object": True} if kind == "json_object" else {}


def _stream_options(name: str, value: Any) -> bool:
    for key, item in mapping(name, value).items():
        if key != "include_obfuscation" or (item is not None and item is not False):
            raise invalid(f"{name}.{key[:64]}", f"Unsupported parameter: '{name}.{key[:64]}'.", "unsupported_parameter")
    return True


def _truncation(name: str, value: Any) -> str:
    if one_of(name, value, ("auto", "disabled")) == "auto":
        raise invalid(name, f"Unsupported value: '{name}' can only be 'disabled'.", "unsupported_value")
    return "disabled"


# OpenAI's parameters that are not served, each with the values that ask for nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "access_programs": (),
    "background": (False,),
    "background_options": (),
    "context_management": ([],),
    "image": (),
    "include": ([],),
    "max_tool_calls": (),
    "moderation": (),
    "parallel_tool_calls": (True, False),
    "prompt": (),
    "prompt_cache_key": (),
    "prompt_cache_options": (),
    "prompt_cache_retention": (),
    "reasoning": ({},),
    "service_tier": ("auto", "default"),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
}

RESPONSE = Table(
    {
        "conversation": conversation,
        "input": Field(
            _input,
            {"anyOf": [_text.schema, {"type": "array", "items": ITEM, "minItems": 1, "maxItems": MAX_ITEMS}]},
            "Text, or messages of text.",
        ),
        "instructions": _text,
        "max_output_tokens": integer(1, 2**63),
        "metadata": metadata,
        "model": string(256, may_be_empty=False),
        "previous_response_id": string(64, may_be_empty=False, about="Not with 'conversation'."),
        "safety_identifier": string(512),
        "store": boolean,
        "stream": boolean,
        "stream_options": Field(
            _stream_options,
            {
                "type": "object",
                "properties": {"include_obfuscation": {"enum": [None, False]}},
                "additionalProperties": False,
            },
            "Only with 'stream'.",
        ),
        "temperature": decimal(0, 2),
        "text": Field(
            _format,
            {
                "type": "object",
                "properties": {
                    "format": {"anyOf": [TEXT_FORMAT, {"type": "null"}]},
                    "verbosity": {"enum": [None, "medium"]},
                },
                "additionalProperties": False,
            },
        ),
        "top_p": decimal(0, 1, above_low=True),
        "truncation": Field(_truncation, {"const": "disabled"}),
        "user": string(512),
    },
    ("model", "input"),
    _NEUTRAL,
)
