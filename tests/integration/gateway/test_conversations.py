"""Conversations over HTTP, with the official client, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from control_plane.contracts.errors import DropReason, Unavailable, WorkerLost
from control_plane.contracts.grant import Grant
from control_plane.contracts.worker import Delta, Done, Finish, FinishReason
from tests.integration.gateway.rig import CHAT, KEY, MODEL, Rig, chat_body, eventually, request, say
from tests.integration.gateway.store import OTHERS_KEY, client_of, keeping
from tests.unit.gateway.fakes import Submitted

HELLO: Any = [{"role": "user", "content": "hi"}]


@pytest.fixture
async def client(kept: Rig) -> AsyncIterator[openai.AsyncOpenAI]:
    async with client_of(kept) as client:
        yield client


async def told(client: openai.AsyncOpenAI, conversation: str) -> list[tuple[str, str, str]]:
    """Role, text and status of each item, oldest first."""
    found = []
    async for item in client.conversations.items.list(conversation, order="asc"):
        assert item.type == "message"
        found.append((item.role, "".join(getattr(part, "text", "") for part in item.content), item.status))
    return found


def turn_statuses(body: Any) -> list[str]:
    return [item.get("turn", {}).get("status", "") for item in body["data"]]


async def test_the_official_client_makes_reads_changes_and_deletes(client: openai.AsyncOpenAI) -> None:
    made = await client.conversations.create(
        metadata={"topic": "tests"},
        items=[
            {"type": "message", "role": "user", "content": "first"},
            {"role": "developer", "content": [{"type": "input_text", "text": "second"}]},
        ],
    )
    assert made.object == "conversation"
    assert made.metadata == {"topic": "tests"}
    assert (await client.conversations.retrieve(made.id)).created_at == made.created_at
    changed = await client.conversations.update(made.id, metadata={"topic": "other"})
    assert changed.metadata == {"topic": "other"}
    added = await client.conversations.items.create(
        made.id, items=[{"role": "assistant", "content": "third", "type": "message"}]
    )
    assert added.data[0].type == "message"
    assert await told(client, made.id) == [
        ("user", "first", "completed"),
        ("developer", "second", "completed"),
        ("assistant", "third", "completed"),
    ]
    item = await client.conversations.items.retrieve(added.data[0].id or "", conversation_id=made.id)
    assert item.type == "message"
    assert item.content[0].type == "output_text"
    await client.conversations.items.delete(added.data[0].id or "", conversation_id=made.id)
    assert len(await told(client, made.id)) == 2
    gone = await client.conversations.delete(made.id)
    assert gone.deleted
    with pytest.raises(openai.NotFoundError):
        await client.conversations.retrieve(made.id)


async def test_pages_are_followed_by_the_official_client(kept: Rig, client: openai.AsyncOpenAI) -> None:
    made = await client.conversations.create()
    for number in range(5):
        await client.conversations.items.create(made.id, items=[{"role": "user", "content": str(number)}])
    texts = [
        item.content[0].text  # type: ignore[union-attr]
        async for item in client.conversations.items.list(made.id, limit=2, include=["message.output_text.logprobs"])
    ]
    assert texts == ["4", "3", "2", "1", "0"]
    for _ in range(3):
        await client.conversations.create()
    page = (await kept.get("/v1/conversations?limit=3&order=asc")).json
    assert (page["data"][0]["id"], page["has_more"], page["object"]) == (made.id, True, "list")
    rest = (await kept.get(f"/v1/conversations?order=asc&after={page['last_id']}")).json
    assert (len(rest["data"]), rest["has_more"]) == (1, False)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_chat_continues_a_conversation(kept: Rig, client: openai.AsyncOpenAI, stream: bool) -> None:
    kept.router.play = lambda submitted: say(submitted, ["an", "swer"])
    made = await client.conversations.create(items=[{"role": "system", "content": "Be brief."}])
    for content in ("one", "two"):
        answer = await kept.chat(content, conversation=made.id, stream=stream)
        assert answer.status == 200
    assert await told(client, made.id) == [
        ("system", "Be brief.", "completed"),
        ("user", "one", "completed"),
        ("assistant", "answer", "completed"),
        ("user", "two", "completed"),
        ("assistant", "answer", "completed"),
    ]
    whole = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "answer"},
    ]
    asked = (await kept.call(2)).call.prompt_token_ids
    await kept.post(CHAT, {"model": MODEL, "messages": [*whole, {"role": "user", "content": "two"}]})
    assert list((await kept.call(3)).call.prompt_token_ids) == list(asked)


async def test_the_messages_are_there_before_anything_runs(kept: Rig, client: openai.AsyncOpenAI) -> None:
    kept.router.play = None
    made = await client.conversations.create()
    asking = asyncio.create_task(kept.chat("hi", conversation={"id": made.id}))
    submitted = await kept.call()
    assert await told(client, made.id) == [("user", "hi", "completed"), ("assistant", "", "in_progress")]
    say(submitted, ["x"])
    await asking


async def test_a_client_that_leaves(kept: Rig, client: openai.AsyncOpenAI) -> None:
    """HI01: cancel after three deltas: the user's message and exactly what was delivered stay; the next turn works."""
    kept.router.play = None
    made = await client.conversations.create()
    raw = await kept.connect()
    raw.send(request(body=chat_body(stream=True, conversation=made.id)))
    submitted = await kept.call()
    for piece in ("a", "b", "c"):
        submitted.sink.delta(Delta(1, [5], piece))
    received = b""
    while b'"c"' not in received:
        received += await raw.reader.read(4096)
    raw.reset()
    await kept.idle()
    await _settled(kept, made.id)
    assert await told(client, made.id) == [("user", "hi", "completed"), ("assistant", "abc", "incomplete")]
    page = (await kept.get(f"/v1/conversations/{made.id}/items")).json
    assert turn_statuses(page) == ["cancelled", "cancelled"]
    kept.router.play = lambda submitted: say(submitted, ["next"])
    for count in (3, 5):
        assert (await kept.chat("again", conversation=made.id)).status == 200
        assert len(await told(client, made.id)) == count + 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_worker_that_dies(kept: Rig, client: openai.AsyncOpenAI, stream: bool) -> None:
    """HI01, S06: what was delivered before a worker's death stays, and no retry says it twice."""

    def die(submitted: Submitted) -> None:
        if stream:
            submitted.sink.delta(Delta(1, [5], "par"))
            submitted.sink.delta(Delta(1, [5], "tial"))
        submitted.sink.failed(WorkerLost("The worker is gone."))

    kept.router.play = die
    made = await client.conversations.create()
    answer = await kept.chat("hi", conversation=made.id, stream=stream)
    assert answer.status == (200 if stream else 502)
    if not stream:
        assert answer.headers["x-should-retry"] == "false"
    text = "partial" if stream else ""
    assert await told(client, made.id) == [("user", "hi", "completed"), ("assistant", text, "incomplete")]
    page = (await kept.get(f"/v1/conversations/{made.id}/items?limit=1")).json
    assert turn_statuses(page) == ["failed"]


async def test_a_call_that_was_not_run_leaves_nothing(kept: Rig, client: openai.AsyncOpenAI) -> None:
    """The client hears that it may try again: its message must not be there twice then."""
    made = await client.conversations.create()
    kept.router.refusal = Unavailable("full", reason=DropReason.OVERLOADED)
    answer = await kept.chat("hi", conversation=made.id)
    assert answer.status == 503
    assert "x-should-retry" not in answer.headers
    kept.router.refusal = None
    kept.router.play = lambda submitted: submitted.sink.failed(Unavailable("full", reason=DropReason.OVERLOADED))
    assert (await kept.chat("hi", conversation=made.id)).status == 503
    assert (await kept.chat("x" * 100_000, conversation=made.id)).status == 400
    assert await told(client, made.id) == []


async def test_a_length_limit_is_told(kept: Rig, client: openai.AsyncOpenAI) -> None:
    kept.router.play = lambda submitted: say(submitted, ["a"], FinishReason.LENGTH)
    made = await client.conversations.create()
    await kept.chat("hi", conversation=made.id, max_tokens=1)
    assert await told(client, made.id) == [("user", "hi", "completed"), ("assistant", "a", "incomplete")]


async def test_others_hear_that_there_is_no_such_thing(kept: Rig, client: openai.AsyncOpenAI) -> None:
    """HI02: another tenant's key gets 404 for everything."""
    made = await client.conversations.create(items=[{"role": "user", "content": "mine"}])
    item = (await client.conversations.items.list(made.id)).data[0]
    kept.router.play = lambda submitted: say(submitted, ["x"])
    stored = await client.responses.create(model=MODEL, input="hi")
    async with client_of(kept, OTHERS_KEY) as others:
        assert item.id is not None
        for ask in (
            others.conversations.retrieve(made.id),
            others.conversations.update(made.id, metadata={}),
            others.conversations.delete(made.id),
            others.conversations.items.list(made.id),
            others.conversations.items.create(made.id, items=[{"role": "user", "content": "x"}]),
            others.conversations.items.retrieve(item.id, conversation_id=made.id),
            others.conversations.items.delete(item.id, conversation_id=made.id),
            others.chat.completions.create(model=MODEL, messages=HELLO, extra_body={"conversation": made.id}),
            others.responses.create(model=MODEL, input="hi", conversation=made.id),
            others.responses.retrieve(stored.id),
            others.responses.delete(stored.id),
            others.responses.cancel(stored.id),
            others.responses.input_items.list(stored.id),
        ):
            with pytest.raises(openai.NotFoundError):
                await ask
        with pytest.raises(openai.BadRequestError) as caught:
            await others.responses.create(model=MODEL, input="hi", previous_response_id=stored.id)
        assert caught.value.param == "previous_response_id"
    assert await told(client, made.id) == [("user", "mine", "completed")]


async def test_parallel_turns_through_two_gateways(store_url: str, tmp_path: Path) -> None:
    """HI02: 20 parallel turns of one conversation: none lost, numbers unique and rising, both stores alike."""
    async with keeping(store_url, tmp_path, "g1") as first, keeping(store_url, tmp_path, "g2") as second:
        for rig in (first, second):
            rig.router.play = lambda submitted: say(submitted, ["yes"])
        async with client_of(first) as client:
            made = await client.conversations.create()
            answers = await asyncio.gather(
                *(
                    (first, second)[number % 2].chat(f"question {number}", conversation=made.id, stream=number % 3 == 0)
                    for number in range(20)
                )
            )
            assert [answer.status for answer in answers] == [200] * 20
            items = await told(client, made.id)
    assert items[1::2] == [("assistant", "yes", "completed")] * 20
    assert sorted(text for _, text, _ in items[::2]) == sorted(f"question {number}" for number in range(20))


async def test_a_conversation_that_is_deleted_while_it_answers(kept: Rig, client: openai.AsyncOpenAI) -> None:
    kept.router.play = None
    made = await client.conversations.create()
    asking = asyncio.create_task(kept.chat("hi", conversation=made.id))
    submitted = await kept.call()
    await client.conversations.delete(made.id)
    say(submitted, ["late"])
    assert (await asking).status == 200
    with pytest.raises(openai.NotFoundError):
        await client.conversations.items.list(made.id)


@pytest.mark.parametrize(
    ("path", "body", "param", "code"),
    [
        ("", {"metadata": {str(n): "" for n in range(17)}}, "metadata", "object_above_max_properties"),
        ("", {"metadata": {"k" * 65: ""}}, "metadata", "string_above_max_length"),
        ("", {"metadata": {"k": "v" * 513}}, "metadata.k", "string_above_max_length"),
        ("", {"metadata": {"k": 1}}, "metadata.k", "invalid_type"),
        ("", {"items": [{"role": "user", "content": "x"}] * 21}, "items", "array_above_max_length"),
        ("", {"items": [{"role": "tool", "content": "x"}]}, "items[0].role", "invalid_value"),
        ("", {"items": [{"role": "user"}]}, "items[0].content", "missing_required_parameter"),
        ("", {"items": [{"type": "reasoning"}]}, "items[0].type", "unsupported_value"),
        (
            "",
            {"items": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "items[0].content[0].type",
            "unsupported_value",
        ),
        ("", {"nonsense": 1}, "nonsense", "unknown_parameter"),
        ("/ID", {}, "metadata", "missing_required_parameter"),
        ("/ID/items", {}, "items", "missing_required_parameter"),
    ],
)
async def test_what_is_wrong_is_named(
    kept: Rig, client: openai.AsyncOpenAI, path: str, body: Any, param: str, code: str
) -> None:
    made = await client.conversations.create()
    answer = await kept.post("/v1/conversations" + path.replace("ID", made.id), body)
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, param, code)


@pytest.mark.parametrize(
    ("query", "param"),
    [("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("order=up", "order"), ("what=1", "what"),
     ("include[]=nothing", "include")],
)  # fmt: skip
async def test_a_wrong_query_is_named(kept: Rig, query: str, param: str) -> None:
    answer = await kept.get(f"/v1/conversations?{query}")
    assert (answer.status, answer.error["param"]) == (400, param)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"conversation": 5}, "conversation"),
        ({"conversation": ""}, "conversation"),
        ({"conversation": {"id": "x", "more": 1}}, "conversation.more"),
        ({"n": 2}, "n"),
        ({"messages": [{"role": "user", "content": "x", "name": "me"}]}, "messages[0].name"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, "messages[0].tool_call_id"),
    ],
)
async def test_what_a_conversation_cannot_keep(kept: Rig, client: openai.AsyncOpenAI, fields: Any, param: str) -> None:
    made = await client.conversations.create()
    answer = await kept.post(CHAT, chat_body(conversation=made.id) | fields)
    assert (answer.status, answer.error["param"]) == (400, param)


async def test_urls_and_methods(kept: Rig) -> None:
    assert (await kept.http.put("/v1/conversations/x")).status_code == 405
    assert (await kept.http.delete("/v1/conversations/x/items")).status_code == 405
    assert (await kept.get("/v1/conversations/x/nothing")).error["code"] == "unknown_url"
    assert (await kept.get("/v1/conversations/")).status == 404
    assert (await kept.get("/v1/conversations/a%2Fb")).status == 404


async def test_a_gateway_without_a_store_says_so(rig: Rig) -> None:
    assert (await rig.chat("hi", conversation="conv_1")).status == 503
    assert (await rig.get("/v1/conversations")).status == 503


async def test_text_that_databases_dislike(kept: Rig, client: openai.AsyncOpenAI) -> None:
    text = "\0 \x1b0 \x1b[ \u2028 é 😀"
    kept.router.play = lambda submitted: _play(submitted, text)
    made = await client.conversations.create()
    await kept.chat(text, conversation=made.id)
    assert [entry[1] for entry in await told(client, made.id)] == [text, text]


def _play(submitted: Submitted, text: str) -> None:
    done = Done(1, 0, 1)
    submitted.sink.delta(Delta(1, [5], text, finish=Finish(FinishReason.STOP, 1), done=done))


async def _settled(rig: Rig, conversation: str) -> None:
    """Until nothing of it is in progress."""
    for _ in range(1000):
        page = (await rig.get(f"/v1/conversations/{conversation}/items")).json
        if "in_progress" not in turn_statuses(page):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(page)


async def test_a_tenant_has_as_many_as_its_policy_says(kept: Rig, client: openai.AsyncOpenAI) -> None:
    """Refused with what can be done about it; calls of those that are there go on."""
    kept.keys.granted[KEY] = Grant("key-1", conversations=2)

    async def made() -> str:
        return (await client.conversations.create()).id

    async def full() -> bool:
        return (await kept.post("/v1/conversations", {})).status == 400

    names = [await made()]
    # The gateway hears of the key's new limit within a second.
    await eventually(full)
    refused = await kept.post("/v1/conversations", {"metadata": {"a": "b"}})
    assert (refused.error["code"], refused.error["param"]) == ("too_many_conversations", None)
    assert "DELETE /v1/conversations/{id}" in refused.error["message"]
    assert (await kept.chat(conversation=names[0])).status == 200
    oldest = (await kept.get("/v1/conversations?order=asc&limit=1")).json["data"][0]["id"]
    while (await kept.get("/v1/conversations")).json["data"]:
        await client.conversations.delete(oldest)
        found = (await kept.get("/v1/conversations?order=asc&limit=1")).json["data"]
        oldest = found[0]["id"] if found else ""
    await made()
    async with client_of(kept, OTHERS_KEY) as others:
        assert (await others.conversations.create()).id
