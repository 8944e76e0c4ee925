from __future__ import annotations

from typing import Any

import pytest

from control_plane.contracts.errors import InvalidRequest
from control_plane.gateway.schema.generation import Generation, read_chat

HELLO = [{"role": "user", "content": "hi"}]
AT = "tools[0].function"


def tool(**changes: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "weather"} | changes}


def chat(**fields: Any) -> Generation:
    return read_chat({"model": "m", "messages": HELLO} | fields)


def refusal(**fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        chat(**fields)
    return caught.value


def test_what_a_tool_may_say_of_itself() -> None:
    full = tool(description="Weather of a city.", parameters={"type": "object", "properties": {"city": {}}})
    assert chat(tools=[full, tool()]).tools == [full, tool()]
    bare = tool(description=None, parameters=None, strict=False)
    assert chat(tools=[bare]).tools == [tool()]
    assert chat(tools=[tool(parameters={})]).tools == [tool(parameters={})]
    assert len(chat(tools=[tool()] * 128).tools) == 128


@pytest.mark.parametrize(
    ("tools", "param", "code"),
    [
        ({}, "tools", "invalid_type"),
        ([tool()] * 129, "tools", "array_above_max_length"),
        (["x"], "tools[0]", "invalid_type"),
        ([{}], "tools[0].type", "missing_required_parameter"),
        ([{"type": "custom", "custom": {}}], "tools[0].type", "unsupported_value"),
        ([{"type": "function"}], "tools[0].function", "missing_required_parameter"),
        ([tool() | {"x": 1}], "tools[0]", "unknown_parameter"),
        ([tool(), tool(name="")], "tools[1].function.name", "invalid_value"),
        ([tool(name="a b")], f"{AT}.name", "invalid_value"),
        ([tool(name="a\n")], f"{AT}.name", "invalid_value"),
        ([tool(name="x" * 65)], f"{AT}.name", "invalid_value"),
        ([tool(name=None)], f"{AT}.name", "missing_required_parameter"),
        ([tool(name=5)], f"{AT}.name", "invalid_type"),
        ([tool(description=5)], f"{AT}.description", "invalid_type"),
        ([tool(parameters=[])], f"{AT}.parameters", "invalid_type"),
        ([tool(parameters={"type": "array"})], f"{AT}.parameters", "invalid_function_parameters"),
        ([tool(parameters={"properties": []})], f"{AT}.parameters.properties", "invalid_type"),
        ([tool(parameters={"maximum": float("inf")})], f"{AT}.parameters", "invalid_function_parameters"),
        ([tool(strict=True)], f"{AT}.strict", "unsupported_parameter"),
        ([tool(returns={})], AT, "unknown_parameter"),
    ],
)
def test_tools_that_are_refused(tools: Any, param: str, code: str) -> None:
    error = refusal(tools=tools)
    assert (error.param, error.code) == (param, code)


def test_what_a_caller_may_choose() -> None:
    assert chat(tools=[tool()], tool_choice="auto", parallel_tool_calls=True).tools == [tool()]
    assert chat(tools=[tool()], tool_choice="none").tools == []
    assert chat(tool_choice="none", parallel_tool_calls=None) == chat()
    for choice in ("required", {"type": "function", "function": {"name": "weather"}}, 1):
        error = refusal(tools=[tool()], tool_choice=choice)
        assert (error.param, error.code) == ("tool_choice", "unsupported_value")
    assert refusal(tools=[tool()], tool_choice="never").code == "invalid_value"
    assert refusal(tools=[tool()], parallel_tool_calls=False).code == "unsupported_value"


@pytest.mark.parametrize("fields", [{"tool_choice": "auto"}, {"parallel_tool_calls": True}])
def test_there_is_nothing_to_choose_without_tools(fields: dict[str, Any]) -> None:
    error = refusal(**fields)
    assert (error.param, error.code) == (next(iter(fields)), "invalid_value")
