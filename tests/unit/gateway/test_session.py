from __future__ import annotations

from typing import Any

import pytest

from control_plane.gateway.schema.generation import read_chat, read_completion
from control_plane.gateway.schema.responses import read_response
from control_plane.gateway.session import session_of

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("more", "session"),
    [
        ({}, ""),
        ({"user": "ann"}, "acme\0ann"),
        ({"user": ""}, ""),
        ({"conversation": "conv_1"}, "conv_1"),
        ({"conversation": "conv_1", "user": "ann"}, "conv_1"),
    ],
)
def test_a_session_is_the_conversation_or_the_user_of_a_tenant(more: dict[str, Any], session: str) -> None:
    assert session_of("acme", read_chat(CHAT | more)) == session


def test_every_kind_of_call_has_its_user() -> None:
    completion = read_completion({"model": "m", "prompt": "hi", "user": "ann"})
    response = read_response({"model": "m", "input": "hi", "user": "ann"})
    assert session_of("t", completion) == session_of("t", response) == "t\0ann"
    assert session_of("other", completion) != session_of("t", completion)
