"""What a router is asked about a call's model, and what is said of its answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.grant import Grant
from control_plane.contracts.model_choice import ModelChoice, PromptText
from control_plane.gateway.model_door import ask_of, choice_lines, override_of, prompt_text
from control_plane.gateway.schema.generation import Generation, read_chat, read_completion
from control_plane.gateway.schema.responses import read_response
from control_plane.gateway.session import session_of
from tests.unit.gateway.fakes import Wire, exchange_on

GRANT = Grant("key-1", tenant="acme")


def chat(*said: tuple[str, str], **fields: Any) -> Generation:
    messages = [{"role": role, "content": content} for role, content in said]
    return read_chat({"model": "m", "messages": messages} | fields)


def test_what_is_asked_now_is_the_users_last_message_and_all_is_long() -> None:
    talk = chat(("system", "sys"), ("user", "first"), ("assistant", "answer"), ("user", "second"))
    assert prompt_text(talk) == PromptText("second", 20)
    assert prompt_text(chat(("user", "ask"), ("assistant", "so far"))) == PromptText("ask", 9)
    assert prompt_text(chat(("system", "only"))) == PromptText("only", 4)
    assert prompt_text(read_completion({"model": "m", "prompt": "text"})) == PromptText("text", 4)
    assert prompt_text(read_completion({"model": "m", "prompt": [1, 2, 3]})) == PromptText("", 12)
    told = read_response({"model": "m", "input": "hi", "instructions": "be brief", "store": False})
    assert prompt_text(told) == PromptText("hi", 10)


def test_a_route_and_a_router_hear_of_the_same_session() -> None:
    talk = chat(("user", "hi"), conversation="conv_1", user="ann")
    assert ask_of(exchange_on(Wire(), grant=GRANT), talk).session == session_of("acme", talk) != ""


@pytest.mark.parametrize(
    ("sent", "name"), [(b"large", "large"), (b" a/b:7b ", "a/b:7b"), ("modèle".encode(), "modèle")]
)
def test_the_header_as_it_was_meant(sent: bytes, name: str) -> None:
    exchange = exchange_on(Wire(), grant=GRANT)
    exchange.fields[b"x-inferdeck-model"] = sent
    assert override_of(exchange) == ask_of(exchange, chat(("user", "hi"))).override == name


@pytest.mark.parametrize("sent", [b"", b"  ", b"\xff", b"a\tb", b"x" * 257])
def test_a_header_that_is_no_name_is_refused_by_its_own(sent: bytes) -> None:
    exchange = exchange_on(Wire(), grant=GRANT)
    exchange.fields[b"x-inferdeck-model"] = sent
    with pytest.raises(InvalidRequest) as caught:
        override_of(exchange)
    assert caught.value.param == "x-inferdeck-model"


@given(st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=40), st.booleans())
def test_lines_of_an_answer_are_two_of_ascii_at_most(model: str, reasoned: bool) -> None:
    lines = choice_lines(ModelChoice("x", model, "x is y" if reasoned else "")).decode("ascii")
    assert lines.startswith("x-inferdeck-model: ")
    assert lines.count("\r\n") == lines.count("\n") == 1 + reasoned
    if model.isascii():
        assert lines.split("\r\n")[0] == f"x-inferdeck-model: {model.replace('%', '%25')}"
