"""Requests that no schema foresaw, and streams through connections that cut them anywhere."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import openai
import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.errors import WorkerLost
from control_plane.contracts.worker import Delta, Done, Finish, FinishReason
from tests.fuzz.bodies import calls
from tests.fuzz.bounds import bounded
from tests.integration.gateway.rig import (
    COMPLETIONS,
    KEY,
    MODEL,
    Rig,
    chat_body,
    echo_words,
    events,
    gateway,
    request,
)
from tests.unit.gateway.fakes import Submitted

DOCUMENTED = {200, 400, 404, 413}
BOUNDED = bounded(120)


class Loop:
    """A gateway that many examples share, on a loop of its own."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._stack = contextlib.AsyncExitStack()
        self.rig: Rig = self.runner.run(self._stack.enter_async_context(gateway()))

    def close(self) -> None:
        self.runner.run(self._stack.aclose())
        self.runner.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@given(calls(MODEL))
@BOUNDED
def test_any_body_gets_a_documented_answer_and_harms_nobody(shared: Loop, call: tuple[str, bytes]) -> None:
    """F4, as far as the gateway goes."""

    async def one() -> None:
        rig = shared.rig
        answer = await rig.post(*call)
        assert answer.status in DOCUMENTED
        if answer.status != 200:
            assert answer.error["code"]
        elif answer.headers["content-type"] == "text/event-stream":
            assert events(answer.body)[-1] == "[DONE]"
        assert rig.gateway.held == 0
        assert rig.gateway.stats().in_flight == 0

    shared.runner.run(one())


@given(st.binary(max_size=300), st.integers(1, 40))
@BOUNDED
def test_any_bytes_get_an_answer_or_a_closed_connection(shared: Loop, noise: bytes, size: int) -> None:
    async def one() -> None:
        client = await shared.rig.connect()
        for start in range(0, len(noise), size):
            client.send(noise[start : start + size])
        client.writer.write_eof()
        reply = await client.ended()
        assert reply == b"" or reply.startswith(b"HTTP/1.1 4")
        client.close()
        assert (await shared.rig.get("/health")).status == 200

    shared.runner.run(one())


@given(st.data())
@BOUNDED
def test_requests_cut_and_joined_anywhere_are_the_same_requests(shared: Loop, data: st.DataObject) -> None:
    wanted, raw = [], b""
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(st.sampled_from(["chat", "models", "nowhere", "broken", "chunked"]))
        if kind == "chat":
            raw, status = raw + request(body=chat_body()), 200
        elif kind == "models":
            raw, status = raw + request("/v1/models", method="GET"), 200
        elif kind == "nowhere":
            raw, status = raw + request("/nowhere", method="GET"), 404
        elif kind == "broken":
            raw, status = raw + request(body=b"{"), 400
        else:
            body = json.dumps(chat_body()).encode()
            cut = data.draw(st.integers(1, len(body) - 1))
            pieces = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:cut], body[cut:]))
            head = request(length=False, transfer_encoding="chunked", content_type="application/json")
            raw, status = raw + head + pieces + b"0\r\n\r\n", 200
        wanted.append(status)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))

    async def one() -> None:
        client = await shared.rig.connect()
        for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
            client.send(raw[start:end])
            await asyncio.sleep(0)
        assert [(await client.answer()).status for _ in wanted] == wanted
        client.close()

    shared.runner.run(one())


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
# A step has no text while a character is not whole yet, or while a stop string may have begun.
NOTHING_YET = st.lists(st.tuples(st.integers(0, 1), st.just("")), max_size=2)
STEPS = st.builds(list.__add__, NOTHING_YET, st.lists(st.tuples(st.integers(0, 1), TEXT), max_size=8))


class Cut(httpx.AsyncByteStream):
    """A body that arrives in pieces of these sizes."""

    def __init__(self, body: bytes, sizes: list[int]) -> None:
        self._body = body
        self._sizes = sizes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        start, index = 0, 0
        while start < len(self._body):
            size = self._sizes[index % len(self._sizes)]
            yield self._body[start : start + size]
            start, index = start + size, index + 1


@given(
    st.booleans(),
    STEPS,
    st.booleans(),
    st.booleans(),
    st.integers(1, 2),
    st.lists(st.integers(1, 60), min_size=1, max_size=6),
)
@BOUNDED
def test_f5_every_stream_has_the_grammar_and_the_official_client_reads_it_however_it_is_cut(
    shared: Loop, chat: bool, steps: list[tuple[int, str]], fails: bool, usage: bool, choices: int, sizes: list[int]
) -> None:
    """F5."""
    steps = [(choice % choices, text) for choice, text in steps]

    def play(submitted: Submitted) -> None:
        for choice, text in steps:
            submitted.sink.delta(Delta(1, [5], text, choice))
        if fails:
            submitted.sink.failed(WorkerLost("gone"))
            return
        for choice in range(choices):
            done = Done(3, 0, len(steps)) if choice == choices - 1 else None
            submitted.sink.delta(Delta(1, [], "", choice, finish=Finish(FinishReason.STOP, 1), done=done))

    async def one() -> None:
        rig = shared.rig
        rig.router.play = play
        fields: dict[str, Any] = {"stream": True, "n": choices}
        if usage:
            fields["stream_options"] = {"include_usage": True}
        client = await rig.connect()
        if chat:
            client.send(request(body=chat_body() | fields))
        else:
            client.send(request(COMPLETIONS, {"model": MODEL, "prompt": "hi"} | fields))
        answer = await client.answer()
        rig.router.play = echo_words
        client.send(request("/health", method="GET"))
        assert (await client.answer()).json == {"status": "ok"}
        client.close()
        if fails and not steps:
            assert answer.status == 502
            return
        check_grammar(events(answer.body), choices, usage, chat=chat)
        whole = {index: "".join(text for choice, text in steps if choice == index) for index in range(choices)}
        read, error = await read_with_official_client(answer.body, sizes, chat=chat)
        assert {index: text for index, text in read.items() if text} == {
            index: text for index, text in whole.items() if text
        }
        assert error == ("worker_lost" if fails else None)

    shared.runner.run(one())


def check_grammar(found: list[Any], choices: int, usage: bool, *, chat: bool) -> None:
    """role (of a chat), deltas, finish for each choice; then usage where asked for; then [DONE], or an error anywhere
    instead."""
    state = dict.fromkeys(range(choices), "new" if chat else "open")
    ended = False
    seen_usage = False
    for event in found:
        assert not ended, "nothing comes after the end"
        if event == "[DONE]":
            assert set(state.values()) == {"finished"}
            assert seen_usage == usage
            ended = True
        elif "error" in event:
            ended = True
        elif not event["choices"]:
            assert usage
            assert not seen_usage
            assert set(state.values()) == {"finished"}
            assert (
                event["usage"]["total_tokens"] == event["usage"]["prompt_tokens"] + event["usage"]["completion_tokens"]
            )
            seen_usage = True
        else:
            (choice,) = event["choices"]
            index = choice["index"]
            if not chat:
                assert state[index] == "open"
                if choice["finish_reason"] is not None:
                    assert choice["text"] == ""
                    state[index] = "finished"
                continue
            delta = choice["delta"]
            if state[index] == "new":
                assert delta == {"role": "assistant", "content": ""}
                state[index] = "open"
            else:
                assert state[index] == "open"
                assert "role" not in delta
                if choice["finish_reason"] is not None:
                    assert delta == {}
                    state[index] = "finished"
                else:
                    assert set(delta) == {"content"}
            assert event.get("usage", None) is None
            assert ("usage" in event) == usage
    assert ended


async def read_with_official_client(body: bytes, sizes: list[int], *, chat: bool) -> tuple[dict[int, str], str | None]:
    def reply(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Cut(body, sizes))

    texts: dict[int, str] = {}
    async with (
        httpx.AsyncClient(transport=httpx.MockTransport(reply)) as http,
        openai.AsyncOpenAI(base_url="http://test/v1", api_key=KEY, max_retries=0, http_client=http) as client,
    ):
        stream: openai.AsyncStream[Any]
        if chat:
            stream = await client.chat.completions.create(model=MODEL, messages=[], stream=True)
        else:
            stream = await client.completions.create(model=MODEL, prompt="", stream=True)
        try:
            async for chunk in stream:
                for choice in chunk.choices:
                    text = choice.delta.content if chat else choice.text
                    texts[choice.index] = texts.get(choice.index, "") + (text or "")
        except openai.APIError as error:
            return texts, str(error.code)
    return texts, None
