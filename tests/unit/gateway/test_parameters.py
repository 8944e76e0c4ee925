"""Every parameter that the official client can send is served or refused by name; none is forgotten or dropped."""

from __future__ import annotations

import typing
from typing import Any

import pytest
from openai.types import chat as chat_types
from openai.types import completion_create_params
from openai.types.chat import completion_create_params as chat_create_params

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.worker import Sampling
from control_plane.gateway.schema.generation import CHAT, COMPLETION, Generation, read_chat, read_completion
from control_plane.gateway.schema.messages import ROLES, messages
from control_plane.gateway.schema.table import Table


def names(union: Any) -> set[str]:
    """Of all the typed dictionaries of a union, or of the one."""
    kinds = typing.get_args(union) or (union,)
    return {name for kind in kinds for name in typing.get_type_hints(kind)}


CHAT_NAMES = sorted(names(chat_create_params.CompletionCreateParams))
COMPLETION_NAMES = sorted(names(completion_create_params.CompletionCreateParams))


def read(table: Table, **fields: Any) -> Generation:
    if table is CHAT:
        return read_chat({"model": "m", "messages": [{"role": "user", "content": "x"}], **fields})
    return read_completion({"model": "m", "prompt": "x", **fields})


def test_the_client_has_parameters() -> None:
    assert {"messages", "temperature", "stream", "tools"} < set(CHAT_NAMES)
    assert {"prompt", "suffix", "stream"} < set(COMPLETION_NAMES)


EVERY = [(CHAT, name) for name in CHAT_NAMES] + [(COMPLETION, name) for name in COMPLETION_NAMES]


@pytest.mark.parametrize(("table", "name"), EVERY, ids=lambda value: value if isinstance(value, str) else "")
def test_each_is_served_or_known_and_refused(table: Table, name: str) -> None:
    assert (name in table.fields) != (name in table.neutral)
    if name in table.neutral:
        for value in ({"asks": "something"}, "something", 7, [1]):
            with pytest.raises(InvalidRequest) as caught:
                read(table, **{name: value})
            assert (caught.value.param, caught.value.code) == (name, "unsupported_parameter")
        for value in (None, *table.neutral[name]):
            assert read(table, **{name: value}) == read(table)


@pytest.mark.parametrize("table", [CHAT, COMPLETION], ids=["chat", "completion"])
def test_nothing_that_is_read_has_no_effect(table: Table) -> None:
    """What is served is a field of the engine's sampling, or one of those that the gateway itself acts on."""
    ours = {
        "conversation",
        "echo",
        "max_completion_tokens",
        "messages",
        "model",
        "parallel_tool_calls",
        "prompt",
        "response_format",
    }
    ours |= {"stream", "stream_options", "tool_choice", "tools", "top_logprobs"}
    named = {"safety_identifier", "user"}
    assert set(table.fields) - ours - named <= set(Sampling.__dataclass_fields__)


ROLE_TYPES = [
    getattr(chat_types, name)
    for name in dir(chat_types)
    if name.endswith("MessageParam") and hasattr(getattr(chat_types, name), "__annotations__")
]


@pytest.mark.parametrize("kind", ROLE_TYPES, ids=lambda kind: kind.__name__)
def test_each_field_of_each_message_is_read_or_refused_by_name(kind: Any) -> None:
    (role,) = typing.get_args(typing.get_type_hints(kind)["role"])
    if role not in ROLES:
        with pytest.raises(InvalidRequest) as caught:
            messages("messages", [{"role": role, "content": "x"}])
        assert caught.value.param == "messages[0].role"
        return
    for name in typing.get_type_hints(kind).keys() - {"role", "content"}:
        found = _read_or_refused({"role": role, "content": "x", name: "something"})
        assert found in (f"messages[0].{name}", {"role": role, "content": "x", name: "something"})


def _read_or_refused(message: dict[str, str]) -> Any:
    """The message as it is read, or the field that it is refused for."""
    try:
        (found,) = messages("messages", [message])
    except InvalidRequest as error:
        return error.param
    return found


VLLM_ONLY = """
    guided_json structured_outputs bad_words prompt_logprobs truncate_prompt_tokens priority cache_salt documents
    add_generation_prompt continue_final_message use_beam_search logits_processors vllm_xargs kv_transfer_params
    return_token_ids allowed_token_ids thinking_token_budget mm_processor_kwargs request_id include_reasoning
"""


@pytest.mark.parametrize("name", VLLM_ONLY.split())
def test_what_only_vllm_has_is_not_dropped_either(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(CHAT, **{name: {"asks": "something"}})
    assert caught.value.param == name
