from __future__ import annotations

import asyncio
from typing import Any

import pytest

from console.http import Endpoint
from console.learn.calls import Caller, Made
from console.learn.conversation_view import conversation_lines
from console.learn.conversations import Conversations
from console.learn.keyring import Keyring
from console.learn.wire import WireAnswer
from console.text import width
from control_plane.contracts.errors import InferDeckError, NotFound
from lessons.actions import Calls, Shape
from lessons.conversation import ItemSeen
from tests.unit.console.openai_server import Call, serving


def item(number: int, role: str = "user", text: str = "hi", **turn: str) -> dict[str, Any]:
    told: dict[str, Any] = {"id": f"msg_{number}", "role": role, "status": "completed", "content": [{"text": text}]}
    return told | ({"turn": turn} if turn else {})


async def test_a_conversation_is_made_once_by_whoever_is_first() -> None:
    made: list[str] = []

    async def script(call: Call) -> None:
        assert (call.path, call.body) == ("/v1/conversations", {})
        made.append(call.headers["authorization"])
        await asyncio.sleep(0)
        await call.json({"id": f"conv_{len(made)}"})

    async with serving(script) as server:
        endpoint = Endpoint.parse(server.url)
        talks = Conversations(Keyring("own"))
        one, other = Shape("x", conversation="one"), Shape("y", conversation="other", key="wrong")
        await asyncio.gather(talks.make(endpoint, [one, Shape("z")]), talks.make(endpoint, [one, one, other]))
    assert [talks.id_of("one"), talks.id_of("other")] == ["conv_1", "conv_2"]
    assert made == ["Bearer own", "Bearer sk-nobody-ever-made-this-one"]
    assert "one" in talks
    assert "another" not in talks
    with pytest.raises(NotFound, match="no call made a conversation 'another'"):
        await talks.read(endpoint, "another")


async def test_it_is_read_back_page_by_page_with_the_key_that_made_it() -> None:
    asked: list[str] = []

    async def script(call: Call) -> None:
        asked.append(call.path)
        assert call.headers["authorization"] == "Bearer own"
        if call.path == "/v1/conversations":
            await call.json({"id": "c"})
        elif "after" not in call.path:
            await call.json({"data": [item(1), item(2, id="t", status="failed")], "has_more": True, "last_id": "msg_2"})
        else:
            await call.json({"data": [item(3, "assistant", "you")], "has_more": False, "last_id": "msg_3"})

    async with serving(script) as server:
        endpoint = Endpoint.parse(server.url)
        talks = Conversations(Keyring("own"))
        await talks.make(endpoint, [Shape("x", conversation="talk")])
        items = await talks.read(endpoint, "talk")
    assert asked[1:] == [
        "/v1/conversations/c/items?order=asc&limit=100",
        "/v1/conversations/c/items?order=asc&limit=100&after=msg_2",
    ]
    assert items == (
        ItemSeen("user", "hi", "completed"),
        ItemSeen("user", "hi", "completed", "t", "failed"),
        ItemSeen("assistant", "you", "completed"),
    )


async def test_what_is_asked_again_is_asked_where_it_was_asked_first() -> None:
    made: list[dict[str, Any]] = []
    held: dict[str, list[dict[str, Any]]] = {}

    async def script(call: Call) -> None:
        if call.path == "/v1/conversations":
            made.append(call.body)
            name = f"conv_{len(made)}"
            held[name] = [item(at, each["role"], each["content"]) for at, each in enumerate(call.body.get("items", []))]
            await call.json({"id": name})
        else:
            await call.json({"data": held[call.path.split("/")[3]], "has_more": False})

    first, second = (Shape(name, api="chat", text=f"{name}?", conversation="talk") for name in ("first", "second"))
    third = Shape("third", api="chat", text="third?", conversation="talk")

    def say(talks: Conversations, shape: Shape) -> None:
        at = held[talks.id_of("talk")]
        at += [item(len(at), "user", shape.text), item(len(at) + 1, "assistant", f"{shape.name}!")]

    async with serving(script) as server:
        endpoint = Endpoint.parse(server.url)
        talks = Conversations(Keyring("own"))
        for era, shapes in enumerate([[first, second], [third], [third], [first, second], [third]]):
            for shape in shapes:
                await talks.make(endpoint, [shape], era)
                say(talks, shape)
        assert [each.text for each in await talks.read(endpoint, "talk")] == [
            "first?", "first!", "second?", "second!", "third?", "third!",
        ]  # fmt: skip
    copied = [[each["content"] for each in body.get("items", [])] for body in made]
    assert copied == [[], ["first?", "first!", "second?", "second!"], []], "a first one, before the third, and anew"


async def test_turns_go_on_with_the_conversation_of_their_name_and_are_known_by_what_was_asked() -> None:
    bodies: list[dict[str, Any]] = []

    async def script(call: Call) -> None:
        if call.path == "/v1/conversations":
            await call.json({"id": "c"})
            return
        bodies.append(call.body)
        await call.answer(["a", "b"])

    talk = Shape("x", api="chat", text="hi", conversation="talk")
    async with serving(script) as server:
        caller = Caller(Endpoint.parse(server.url), Keyring("key"), "m", "s")
        await caller.start(Calls((talk, Shape("y", api="chat", text="hi")), 3))
        caller.check()
        seen = [made.seen(None) for made in caller.ended]
        await caller.close()
    assert [body.get("conversation") for body in bodies] == ["c", None, "c"]
    assert [(call.conversation, call.asked, call.heard) for call in seen] == [
        ("talk", "hi", "ab"),
        ("", "", ""),
        ("talk", "hi", "ab"),
    ]
    assert [made.request_id for made in caller.talks["talk"]] == ["s-1-x", "s-3-x"]


async def test_a_conversation_that_cannot_be_made_is_told_and_its_calls_are_not() -> None:
    async def script(call: Call) -> None:
        assert call.path == "/v1/conversations"
        await call.error(400, "too_many_conversations")

    async with serving(script) as server:
        caller = Caller(Endpoint.parse(server.url), Keyring("key"), "m", "s")
        await caller.start(Calls((Shape("x", api="chat", text="hi", conversation="talk"),), background=True))
        with pytest.raises(InferDeckError, match="the call 'x' could not be made: no: too_many_conversations"):
            caller.check()
        caller.check()
        assert not caller.ended
        await caller.close()


def made(text: str, heard: list[str]) -> Made:
    answer = WireAnswer()
    answer.text = heard
    return Made("r", Shape("x", api="chat", text=text, conversation="talk"), "/chat/completions", {}, answer)


def test_what_is_kept_stands_beside_what_was_heard() -> None:
    items = (
        ItemSeen("system", "by hand", "completed"),
        ItemSeen("user", "one", "completed", "t1", "completed"),
        ItemSeen("assistant", "It begins so, goes on for long, and ends thus.", "completed", "t1", "completed"),
        ItemSeen("user", "two\x1b[31m", "completed", "t2", "failed"),
        ItemSeen("assistant", "a", "incomplete", "t2", "failed"),
    )
    calls = [made("one", ["x" * 1234]), made("two\x1b[31m", ["a"])]
    lines = list(conversation_lines("conv_" + "0" * 90, items, calls, 75))
    assert all(width(line) <= 75 for line in lines)
    assert lines[0].startswith("> GET /v1/conversations/conv_000")
    cells = [line.split() for line in lines[2:]]
    assert cells[0] == ["ROLE", "TURN", "KEPT", "HEARD", "TEXT"]
    assert cells[1] == ["system", "–", "7", "–", "by", "hand"]
    assert cells[3][:4] == ["assistant", "completed", "46", "1,234"]
    assert lines[5].endswith("It begins so, … and ends thus.")
    assert cells[5] == ["assistant", "failed", "1", "1", "a"]
    assert "\x1b[31m" not in lines[6]
