from __future__ import annotations

from typing import Any

import pytest

from control_plane.contracts.errors import InvalidRequest
from control_plane.gateway.schema.messages import ROLES, messages


def read(*items: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = messages("messages", list(items))
    return found


def refusal(*items: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        read(*items)
    return caught.value


@pytest.mark.parametrize("role", ROLES)
def test_parts_become_text_in_every_role(role: str) -> None:
    """A07."""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert read({"role": role, "content": parts}) == [{"role": role, "content": "a\nb"}]
    assert read({"role": role, "content": ""}) == [{"role": role, "content": ""}]


def test_an_assistant_may_have_said_nothing() -> None:
    """A07."""
    for message in ({"role": "assistant", "content": None}, {"role": "assistant"}):
        assert read(message) == [{"role": "assistant", "content": ""}]


def test_the_official_clients_own_messages_can_be_sent_back() -> None:
    message = {
        "role": "assistant",
        "content": "x",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "tool_calls": None,
    }
    assert read(message) == [{"role": "assistant", "content": "x"}]


@pytest.mark.parametrize(
    ("message", "param", "code"),
    [
        ("hi", "messages[0]", "invalid_type"),
        ({"content": "x"}, "messages[0].role", "missing_required_parameter"),
        ({"role": "x", "content": "x"}, "messages[0].role", "invalid_value"),
        ({"role": "function", "content": "x"}, "messages[0].role", "invalid_value"),
        ({"role": 1, "content": "x"}, "messages[0].role", "invalid_type"),
        ({"role": "user", "content": None}, "messages[0].content", "invalid_type"),
        ({"role": "user"}, "messages[0].content", "missing_required_parameter"),
        ({"role": "user", "content": 5}, "messages[0].content", "invalid_type"),
        ({"role": "user", "content": []}, "messages[0].content", "empty_array"),
        ({"role": "user", "content": ["x"]}, "messages[0].content[0]", "invalid_type"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text", "missing_required_parameter"),
        ({"role": "user", "content": [{"text": "x"}]}, "messages[0].content[0].type", "missing_required_parameter"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]},
            "messages[0].content[0].type",
            "unsupported_value",
        ),
        (
            {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {}}]},
            "messages[0].content[0]",
            "unknown_parameter",
        ),
        ({"role": "user", "content": "x", "mood": "good"}, "messages[0]", "unknown_parameter"),
        ({"role": "user", "content": "x", "tool_calls": [{}]}, "messages[0].tool_calls", "unsupported_parameter"),
        ({"role": "assistant", "content": "x", "audio": {"id": "a"}}, "messages[0].audio", "unsupported_parameter"),
        ({"role": "assistant", "content": "x", "refusal": "no"}, "messages[0].refusal", "unsupported_parameter"),
        ({"role": "user", "content": "x", "tool_call_id": "1"}, "messages[0].tool_call_id", "unsupported_parameter"),
        ({"role": "user", "content": "x", "name": ""}, "messages[0].name", "empty_string"),
    ],
)
def test_what_is_refused_and_how(message: Any, param: str, code: str) -> None:
    """A07."""
    error = refusal(message)
    assert (error.param, error.code) == (param, code)


def test_the_place_of_a_wrong_message_is_told() -> None:
    good = {"role": "user", "content": "x"}
    assert refusal(good, good, {"role": "user"}).param == "messages[2].content"


def test_names_are_kept() -> None:
    assert read({"role": "user", "content": "x", "name": "ann"})[0]["name"] == "ann"
    assert read({"role": "tool", "content": "x", "tool_call_id": "7"})[0]["tool_call_id"] == "7"


def test_how_many_there_may_be() -> None:
    good = {"role": "user", "content": "x"}
    assert len(read(*[good] * 4096)) == 4096
    error = refusal(*[good] * 4097)
    assert (error.param, error.code) == ("messages", "array_above_max_length")


def call(**changes: Any) -> dict[str, Any]:
    function = {"name": "weather", "arguments": '{"city": "Oslo", "days": 2}'} | changes.pop("function", {})
    return {"id": "call_1", "type": "function", "function": function} | changes


def test_calls_of_tools_have_their_arguments_as_objects() -> None:
    (message,) = read({"role": "assistant", "content": None, "tool_calls": [call()]})
    assert message["content"] == ""
    assert message["tool_calls"] == [call(function={"arguments": {"city": "Oslo", "days": 2}})]
    (message,) = read({"role": "assistant", "tool_calls": [call(function={"arguments": ""})]})
    assert message["tool_calls"][0]["function"]["arguments"] == {}


AT = "messages[0].tool_calls[0]"


@pytest.mark.parametrize(
    ("bad", "param", "code"),
    [
        ("x", AT, "invalid_type"),
        ({}, f"{AT}.id", "missing_required_parameter"),
        (call(type="custom"), f"{AT}.type", "unsupported_value"),
        (call(index=0), AT, "unknown_parameter"),
        (call(id=7), f"{AT}.id", "invalid_type"),
        (call(function={"name": "a b"}), f"{AT}.function.name", "invalid_value"),
        (call(function={"arguments": {}}), f"{AT}.function.arguments", "invalid_type"),
        (call(function={"arguments": "[]"}), f"{AT}.function.arguments", "invalid_json"),
        (call(function={"arguments": "{"}), f"{AT}.function.arguments", "invalid_json"),
        (call(function={"arguments": '{"a": NaN}'}), f"{AT}.function.arguments", "invalid_json"),
        (call(function={"arguments": '{"a": "\\ud800"}'}), f"{AT}.function.arguments", "invalid_json"),
        (call(function={"arguments": '{"a":' + "[" * 99 + "]" * 99 + "}"}), f"{AT}.function.arguments", "invalid_json"),
        (call(function={"more": 1}), f"{AT}.function", "unknown_parameter"),
    ],
)
def test_calls_of_tools_that_are_none(bad: Any, param: str, code: str) -> None:
    error = refusal({"role": "assistant", "tool_calls": [bad]})
    assert (error.param, error.code) == (param, code)


def test_how_many_calls_a_message_may_have() -> None:
    assert refusal({"role": "assistant", "tool_calls": [call()] * 129}).code == "array_above_max_length"
