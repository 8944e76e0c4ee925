from __future__ import annotations

from typing import Any

import pytest

from control_plane.gateway.schema.generation import Generation, read_chat, read_completion
from control_plane.gateway.schema.responses import read_response
from control_plane.gateway.schema.thread import response_id
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


RESPONSE: dict[str, Any] = {"model": "m", "input": "hi"}


def session(generation: Generation, tenant: str = "acme") -> str:
    return session_of(tenant, generation)


def turn_of(generation: Generation) -> str:
    assert generation.thread is not None
    return generation.thread.turn_id


def test_responses_that_follow_each_other_are_one_session() -> None:
    first = read_response(RESPONSE)
    second = read_response(RESPONSE | {"previous_response_id": turn_of(first)})
    third = read_response(RESPONSE | {"previous_response_id": turn_of(second)})
    assert session(first) == session(second) == session(third) != ""
    assert len({turn_of(first), turn_of(second), turn_of(third)}) == 3
    beside = read_response(RESPONSE | {"previous_response_id": turn_of(first)})
    assert session(beside) == session(first)
    assert turn_of(beside) != turn_of(second)
    assert session(read_response(RESPONSE)) != session(first), "another chain"
    assert session(second, "other") != session(second), "another tenant's"


def test_a_response_that_nothing_can_follow_is_no_session() -> None:
    alone = read_response(RESPONSE | {"store": False})
    assert session(alone) == ""
    last = read_response(RESPONSE | {"store": False, "previous_response_id": turn_of(read_response(RESPONSE))})
    assert session(last) != "", "it follows one"


def test_an_id_that_is_none_of_ours_begins_a_chain_of_its_own() -> None:
    for previous in ("", "x", "resp_", "resp_" + "A" * 32, "resp_" + "a" * 31, "resp_" + "a" * 33, "turn_" + "a" * 32):
        made = response_id(previous)
        assert len(made) == len("resp_") + 32
        assert made[:21] != previous[:21]
    assert response_id("resp_" + "a" * 32).startswith("resp_" + "a" * 16)
