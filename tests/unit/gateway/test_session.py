from __future__ import annotations

from typing import Any

import pytest

from control_plane.gateway.schema.generation import read_chat, read_completion
from control_plane.gateway.schema.responses import read_response
from control_plane.gateway.session import session_of

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def of(tenant: str = "acme", **more: Any) -> str:
    return session_of(tenant, read_chat(CHAT | more))


@pytest.mark.parametrize("more", [{}, {"user": ""}])
def test_a_key_by_itself_is_no_session(more: dict[str, Any]) -> None:
    assert of(**more) == ""


def test_a_session_is_the_conversation_or_else_the_user() -> None:
    assert of(conversation="conv_1") == of(conversation="conv_1", user="ann")
    assert of(user="ann") not in ("", of(user="bob"), of(conversation="conv_1"))
    assert of(user="conv_1") != of(conversation="conv_1")


def test_no_two_tenants_share_one() -> None:
    assert of("other", user="ann") != of(user="ann")
    assert of("other", conversation="conv_1") != of(conversation="conv_1")


def test_it_does_not_say_whose_it_is() -> None:
    assert not any(word in of(user="ann") for word in ("acme", "ann"))
    assert "conv_1" not in of(conversation="conv_1")


def test_every_kind_of_call_has_its_user() -> None:
    completion = read_completion({"model": "m", "prompt": "hi", "user": "ann"})
    response = read_response({"model": "m", "input": "hi", "user": "ann"})
    assert session_of("acme", completion) == session_of("acme", response) == of(user="ann")
