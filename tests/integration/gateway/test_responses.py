"""``/v1/responses`` with the official client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from control_plane.contracts.errors import DropReason, Unavailable, WorkerLost
from control_plane.contracts.worker import Delta, FinishReason
from tests.integration.gateway.rig import MODEL, Rig, request, say
from tests.integration.gateway.store import client_of
from tests.unit.gateway.fakes import Submitted

RESPONSES = "/v1/responses"
SEQUENCE = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
]


@pytest.fixture
def store_url() -> str:
    """SQLite: what the databases do alike is told by the tests of conversations."""
    return ""


@pytest.fixture
async def client(kept: Rig) -> AsyncIterator[openai.AsyncOpenAI]:
    kept.router.play = lambda submitted: say(submitted, ["Hel", "lo"], cached=1)
    async with client_of(kept) as client:
        yield client


def sse(body: bytes) -> list[dict[str, Any]]:
    found = []
    for block in body.decode().split("\n\n")[:-1]:
        head, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert head == f"event: {event['type']}"
        found.append(event)
    return found


async def test_text_in_text_out(client: openai.AsyncOpenAI) -> None:
    made = await client.responses.create(
        model=MODEL, input="hi", instructions="Be brief.", temperature=0.5, max_output_tokens=9, metadata={"a": "b"}
    )
    assert made.output_text == "Hello"
    assert (made.status, made.error, made.incomplete_details) == ("completed", None, None)
    assert (made.temperature, made.max_output_tokens, made.instructions) == (0.5, 9, "Be brief.")
    assert made.metadata == {"a": "b"}
    assert made.usage is not None
    assert (made.usage.output_tokens, made.usage.input_tokens_details.cached_tokens) == (2, 1)
    again = await client.responses.retrieve(made.id)
    assert again.to_dict() | {"completed_at": 0} == made.to_dict() | {"completed_at": 0}
    items = await client.responses.input_items.list(made.id)
    assert [item.to_dict()["content"] for item in items.data] == [[{"type": "input_text", "text": "hi"}]]
    await client.responses.delete(made.id)
    for gone in (client.responses.retrieve(made.id), client.responses.delete(made.id)):
        with pytest.raises(openai.NotFoundError):
            await gone


async def test_the_prompt_is_what_a_chat_would_have(kept: Rig, client: openai.AsyncOpenAI) -> None:
    await client.responses.create(
        model=MODEL,
        instructions="Be brief.",
        input=[
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "two"}]},  # type: ignore[list-item]
            {"role": "user", "content": [{"type": "input_text", "text": "three"}]},
        ],
    )
    asked = (await kept.call()).call
    messages = [("system", "Be brief."), ("user", "one"), ("assistant", "two"), ("user", "three")]
    body = {"model": MODEL, "messages": [{"role": role, "content": text} for role, text in messages]}
    await kept.post("/v1/chat/completions", body)
    assert list((await kept.call(2)).call.prompt_token_ids) == list(asked.prompt_token_ids)
    counted = (await kept.post("/tokenize", body)).json
    assert counted["tokens"] == list(asked.prompt_token_ids)
    assert asked.api == "responses"


async def test_a_stream(kept: Rig, client: openai.AsyncOpenAI) -> None:
    """S01, S04: every event in its place and numbered, text as it is without streaming."""
    stream = await client.responses.create(model=MODEL, input="hi", stream=True)
    events = [event async for event in stream]
    assert [event.type for event in events] == [*SEQUENCE, "response.completed"]
    assert [event.sequence_number for event in events] == list(range(10))
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == "Hello"
    assert (await client.responses.retrieve(last.response.id)).output_text == "Hello"
    answer = await kept.post(RESPONSES, {"model": MODEL, "input": "hi", "stream": True})
    assert answer.headers["content-type"] == "text/event-stream"
    assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-cache", "no")
    ids = {event["item_id"] for event in sse(answer.body) if "item_id" in event}
    assert len(ids) == 1


async def test_the_stream_helper(client: openai.AsyncOpenAI) -> None:
    async with client.responses.stream(model=MODEL, input="hi") as stream:
        texts = [event.delta async for event in stream if event.type == "response.output_text.delta"]
        final = await stream.get_final_response()
    assert texts == ["Hel", "lo"]
    assert final.output_text == "Hello"


async def test_text_of_any_kind(kept: Rig, client: openai.AsyncOpenAI) -> None:
    """S01: valid UTF-8, one line each, nothing lost."""
    pieces = ["a\nb", "\u2028", "😀", "\x85", '"\\']
    kept.router.play = lambda submitted: say(submitted, pieces)
    stream = await client.responses.create(model=MODEL, input="hi", stream=True)
    events = [event async for event in stream]
    assert [event.delta for event in events if event.type == "response.output_text.delta"] == pieces
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == "".join(pieces)


@pytest.mark.parametrize("stream", [True, False])
async def test_tokens_that_are_used_up(kept: Rig, client: openai.AsyncOpenAI, stream: bool) -> None:
    kept.router.play = lambda submitted: say(submitted, ["a", "b"], FinishReason.LENGTH)
    if stream:
        events = [event async for event in await client.responses.create(model=MODEL, input="hi", stream=True)]
        assert events[-1].type == "response.incomplete"
        made = events[-1].response
    else:
        made = await client.responses.create(model=MODEL, input="hi")
    assert made.status == "incomplete"
    assert made.incomplete_details is not None
    assert made.incomplete_details.reason == "max_output_tokens"
    assert (await client.responses.retrieve(made.id)).status == "incomplete"


async def test_a_worker_that_dies_in_a_stream(kept: Rig, client: openai.AsyncOpenAI) -> None:
    """S06: the error, the response as far as it came, the end; nothing is said twice."""

    def die(submitted: Submitted) -> None:
        submitted.sink.delta(Delta(1, [5], "par"))
        submitted.sink.failed(WorkerLost("The worker is gone."))

    kept.router.play = die
    events = [event async for event in await client.responses.create(model=MODEL, input="hi", stream=True)]
    assert [event.type for event in events[4:]] == ["response.output_text.delta", "error", "response.failed"]
    assert [event.sequence_number for event in events] == list(range(7))
    error, failed = events[-2], events[-1]
    assert error.type == "error"
    assert error.code == "worker_lost"
    assert failed.type == "response.failed"
    assert failed.response.output_text == "par"
    assert failed.response.error is not None
    stored = await client.responses.retrieve(failed.response.id)
    assert (stored.status, stored.output_text) == ("failed", "par")


@pytest.mark.parametrize("stream", [True, False])
async def test_what_was_not_run_is_not_stored(kept: Rig, stream: bool) -> None:
    kept.router.refusal = Unavailable("full", reason=DropReason.OVERLOADED)
    answer = await kept.post(RESPONSES, {"model": MODEL, "input": "hi", "stream": stream})
    assert (answer.status, answer.error["code"]) == (503, "overloaded")


async def test_responses_that_continue_one_another(kept: Rig, client: openai.AsyncOpenAI) -> None:
    first = await client.responses.create(model=MODEL, input="one", instructions="not carried over")
    second = await client.responses.create(model=MODEL, input="two", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    asked = (await kept.call(2)).call.prompt_token_ids
    messages = [("user", "one"), ("assistant", "Hello"), ("user", "two")]
    body = {"model": MODEL, "messages": [{"role": role, "content": text} for role, text in messages]}
    assert (await kept.post("/tokenize", body)).json["tokens"] == list(asked)
    await client.responses.delete(first.id)
    with pytest.raises(openai.BadRequestError) as caught:
        await client.responses.create(model=MODEL, input="three", previous_response_id=second.id)
    assert (caught.value.param, caught.value.code) == ("previous_response_id", "previous_response_not_found")


async def test_a_response_of_a_conversation(client: openai.AsyncOpenAI) -> None:
    talk = await client.conversations.create()
    made = await client.responses.create(model=MODEL, input="one", conversation=talk.id)
    assert made.conversation is not None
    assert made.conversation.id == talk.id
    unstored = await client.responses.create(model=MODEL, input="two", conversation={"id": talk.id}, store=False)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(unstored.id)
    await client.responses.delete(made.id)
    items = [item.to_dict()["content"][0]["text"] async for item in client.conversations.items.list(talk.id)]  # type: ignore[index]
    assert items == ["Hello", "two", "Hello", "one"]


async def test_what_is_not_to_be_stored_is_not(client: openai.AsyncOpenAI) -> None:
    made = await client.responses.create(model=MODEL, input="hi", store=False)
    assert (made.output_text, made.store) == ("Hello", False)  # type: ignore[attr-defined]
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(made.id)


async def test_it_needs_no_store_for_that(rig: Rig) -> None:
    assert (await rig.post(RESPONSES, {"model": MODEL, "input": "hi", "store": False})).status == 200
    assert (await rig.post(RESPONSES, {"model": MODEL, "input": "hi"})).status == 503


async def test_a_client_that_leaves(kept: Rig, client: openai.AsyncOpenAI) -> None:
    kept.router.play = None
    raw = await kept.connect()
    raw.send(request(RESPONSES, {"model": MODEL, "input": "hi", "stream": True}))
    submitted = await kept.call()
    submitted.sink.delta(Delta(1, [5], "par"))
    received = b""
    while b'"par"' not in received:
        received += await raw.reader.read(4096)
    response_id = received.partition(b'"id":"resp_')[2][:32].decode()
    raw.reset()
    await kept.idle()
    for _ in range(1000):
        stored = await client.responses.retrieve(f"resp_{response_id}")
        if stored.status != "in_progress":
            break
        await asyncio.sleep(0.01)
    assert (stored.status, stored.output_text) == ("cancelled", "par")


async def test_structured_text(kept: Rig, client: openai.AsyncOpenAI) -> None:
    class Shape(BaseModel):
        name: str

    kept.router.play = lambda submitted: say(submitted, ['{"name":', '"x"}'])
    parsed = await client.responses.parse(model=MODEL, input="hi", text_format=Shape)
    assert parsed.output_parsed == Shape(name="x")
    schema = (await kept.call()).call.sampling.json_schema
    assert schema is not None
    assert json.loads(schema)["properties"]["name"]["type"] == "string"
    await client.responses.create(model=MODEL, input="hi", text={"format": {"type": "json_object"}})
    assert (await kept.call(2)).call.sampling.json_object is True


async def test_cancel_is_for_what_runs_in_the_background(client: openai.AsyncOpenAI) -> None:
    made = await client.responses.create(model=MODEL, input="hi")
    with pytest.raises(openai.BadRequestError):
        await client.responses.cancel(made.id)


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools", "unsupported_parameter"),
        ({"reasoning": {"effort": "low"}}, "reasoning", "unsupported_parameter"),
        ({"background": True}, "background", "unsupported_parameter"),
        ({"include": ["reasoning.encrypted_content"]}, "include", "unsupported_parameter"),
        ({"truncation": "auto"}, "truncation", "unsupported_value"),
        ({"text": {"verbosity": "low"}}, "text.verbosity", "unsupported_parameter"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format.type", "invalid_value"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format.name", "missing_required_parameter"),
        ({"seed": 1}, "seed", "unknown_parameter"),
        ({"input": None}, "input", "invalid_type"),
        ({"input": []}, "input", "empty_array"),
        ({"input": [{"type": "function_call"}]}, "input[0].type", "unsupported_value"),
        ({"max_output_tokens": 0}, "max_output_tokens", "integer_below_min_value"),
        ({"max_output_tokens": 100000}, "max_output_tokens", "integer_above_max_value"),
        ({"input": "x" * 5000}, "input", "context_length_exceeded"),
        ({"conversation": "a", "previous_response_id": "b"}, "previous_response_id", "invalid_parameter_combination"),
        ({"stream_options": {}}, "stream_options", "invalid_value"),
        ({"temperature": 3}, "temperature", "decimal_above_max_value"),
        ({"metadata": {"a": 1}}, "metadata.a", "invalid_type"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_named(kept: Rig, fields: Any, param: str, code: str) -> None:
    answer = await kept.post(RESPONSES, {"model": MODEL, "input": "hi"} | fields)
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, param, code)


async def test_what_asks_for_nothing_is_taken(kept: Rig, client: openai.AsyncOpenAI) -> None:
    quiet = {
        "tools": [], "tool_choice": "auto", "parallel_tool_calls": True, "reasoning": None, "background": False,
        "include": [], "truncation": "disabled", "service_tier": "auto", "top_logprobs": 0, "user": "me",
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
    }  # fmt: skip
    assert (await kept.post(RESPONSES, {"model": MODEL, "input": "hi"} | quiet)).status == 200


async def test_token_ids(kept: Rig) -> None:
    whole = (await kept.post("/tokenize", {"model": MODEL, "prompt": "hi there", "return_token_strs": True})).json
    assert whole["count"] == len(whole["tokens"]) == len(whole["token_strs"])
    assert whole["max_model_len"] == 512
    await kept.complete("hi there")
    assert list((await kept.call()).call.prompt_token_ids) == whole["tokens"]
    back = (await kept.post("/detokenize", {"model": MODEL, "tokens": whole["tokens"]})).json
    assert "hi there" in back["prompt"]
    for body, param in (
        ({"prompt": "x"}, "model"),
        ({"model": MODEL}, "prompt"),
        ({"model": MODEL, "prompt": "x", "add_special_tokens": False}, "add_special_tokens"),
        ({"model": MODEL, "prompt": "x", "more": 1}, "more"),
    ):
        answer = await kept.post("/tokenize", body)
        assert (answer.status, answer.error["param"]) == (400, param)
    assert (await kept.post("/detokenize", {"model": MODEL, "tokens": [10**9]})).error["param"] == "tokens"
    assert (await kept.post("/tokenize", {"model": "none", "prompt": "x"})).status == 404
    assert (await kept.post("/tokenize", {}, authorization="Bearer wrong")).status == 401
