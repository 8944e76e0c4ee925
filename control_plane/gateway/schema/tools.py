"""``tools`` and ``tool_choice``, as a chat template that reads tools takes them.

The functions are shown to the model by its template; what the model then writes is the answer's text, as it wrote it.
"""

from __future__ import annotations

import re
from typing import Any

from control_plane.gateway.schema.values import (
    Field,
    array,
    boolean,
    finite,
    invalid,
    mapping,
    missing,
    one_of,
    only_fields,
    string,
    wrong_type,
)

MAX_TOOLS = 128
NAME_PATTERN = "^[a-zA-Z0-9_-]{1,64}$"
_CHOICES = ("none", "auto")
_FUNCTION_FIELDS = ("name", "description", "parameters", "strict")

_text = string()


def function_name(at: str, value: Any) -> str:
    """The name of a function that there is or was. Raises InvalidRequest."""
    name: str = _text(at, value)
    if re.fullmatch(NAME_PATTERN, name) is None:
        raise invalid(at, f"Invalid '{at}': expected a string that matches '{NAME_PATTERN}'.", "invalid_value")
    return name


def _tools(name: str, value: Any) -> list[dict[str, Any]]:
    return [_tool(f"{name}[{index}]", item) for index, item in enumerate(array(name, value, MAX_TOOLS))]


def _tool(at: str, value: Any) -> dict[str, Any]:
    tool = mapping(at, value)
    if tool.get("type") is None:
        raise missing(f"{at}.type")
    if _text(f"{at}.type", tool["type"]) != "function":
        raise invalid(f"{at}.type", f"Invalid '{at}.type': only 'function' is supported.", "unsupported_value")
    only_fields(at, tool, ("type", "function"))
    if tool.get("function") is None:
        raise missing(f"{at}.function")
    return {"type": "function", "function": _function(f"{at}.function", tool["function"])}


def _function(at: str, value: Any) -> dict[str, Any]:
    function = mapping(at, value)
    only_fields(at, function, _FUNCTION_FIELDS)
    if function.get("name") is None:
        raise missing(f"{at}.name")
    # In the order in which clients and model makers write them: templates show the object as it is.
    read: dict[str, Any] = {"name": function_name(f"{at}.name", function["name"])}
    if function.get("description") is not None:
        read["description"] = _text(f"{at}.description", function["description"])
    if function.get("parameters") is not None:
        read["parameters"] = _parameters(f"{at}.parameters", function["parameters"])
    if function.get("strict") is not None and boolean(f"{at}.strict", function["strict"]):
        raise invalid(
            f"{at}.strict", f"Unsupported parameter: '{at}.strict': calls are not parsed here.", "unsupported_parameter"
        )
    return read


def _parameters(at: str, value: Any) -> dict[str, Any]:
    schema = mapping(at, value)
    if schema.get("type", "object") != "object":
        raise invalid(at, f"Invalid '{at}': expected a JSON Schema of type 'object'.", "invalid_function_parameters")
    properties = schema.get("properties", {})
    if type(properties) is not dict:
        raise wrong_type(f"{at}.properties", "an object", properties)
    if not finite(schema):
        raise invalid(at, "A number in the schema is too large.", "invalid_function_parameters")
    return schema


def _tool_choice(name: str, value: Any) -> str:
    if type(value) is not str or value == "required":
        raise invalid(
            name,
            f"Invalid '{name}': a call cannot be forced here; supported values are 'none' and 'auto'.",
            "unsupported_value",
        )
    return one_of(name, value, _CHOICES)


tools = Field(
    _tools,
    {
        "type": "array",
        "maxItems": MAX_TOOLS,
        "items": {
            "type": "object",
            "required": ["type", "function"],
            "additionalProperties": False,
            "properties": {
                "type": {"const": "function"},
                "function": {
                    "type": "object",
                    "required": ["name"],
                    "additionalProperties": False,
                    "properties": {
                        "name": {"type": "string", "pattern": NAME_PATTERN},
                        "description": {"type": ["string", "null"]},
                        "parameters": {
                            "type": ["object", "null"],
                            "properties": {"type": {"const": "object"}, "properties": {"type": "object"}},
                        },
                        "strict": {"enum": [False, None]},
                    },
                },
            },
        },
    },
    "Functions that the model is told of, where its chat template reads tools. Its calls come as text, as written.",
)

tool_choice = Field(_tool_choice, {"enum": list(_CHOICES)}, "'none': the tools are not shown to the model.")
