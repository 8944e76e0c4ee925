from __future__ import annotations

from typing import Any

import pytest

from control_plane.contracts.errors import InvalidRequest
from control_plane.gateway.schema.messages import ROLES, read_messages


def read(*messages: Any) -> list[dict[str, str]]:
    return read_messages("messages", list(messages))


def refusal(*messages: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        read(*messages)
    return caught.value


@pytest.mark.parametrize("role", ROLES)
def test_parts_become_text_in_every_role(role: str) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert read({"role": role, "content": parts}) == [{"role": role, "content": "a\nb"}]
    assert read({"role": role, "content": ""}) == [{"role": role, "content": ""}]


def test_an_assistant_may_have_said_nothing() -> None:
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
        ({"role": "assistant", "content": "x", "tool_calls": [{}]}, "messages[0].tool_calls", "unsupported_parameter"),
        ({"role": "user", "content": "x", "tool_call_id": "1"}, "messages[0].tool_call_id", "unsupported_parameter"),
        ({"role": "user", "content": "x", "name": ""}, "messages[0].name", "empty_string"),
    ],
)
def test_what_is_refused_and_how(message: Any, param: str, code: str) -> None:
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
