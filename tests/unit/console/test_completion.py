from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.completion import Answer, EventStream
from console.home import Unreachable
from console.http import Connections, Endpoint
from control_plane.contracts.errors import InvalidRequest
from tests.unit.console.openai_server import Call, Script, serving

BODY = {"model": "m", "stream": True, "messages": []}


async def ask(script: Script, body: dict[str, Any] = BODY) -> Answer:
    async with serving(script) as server:
        connections = Connections(Endpoint.parse(server.url))
        answer = Answer()
        async with asyncio.timeout(20):
            await answer.run(connections, "/chat/completions", "k", body)
        connections.close()
        return answer


async def test_a_streamed_answer_with_each_token_s_time() -> None:
    gate = asyncio.Event()

    async def script(call: Call) -> None:
        assert call.headers["authorization"] == "Bearer k"
        await call.open_stream()
        await call.event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
        await call.text("a")
        await gate.wait()
        await call.text("b")
        await call.text(None, "stop")
        await call.end_stream(usage={"prompt_tokens": 5, "completion_tokens": 2})

    heard: list[tuple[str, float]] = []

    def on_text(text: str, at: float) -> None:
        heard.append((text, at))
        gate.set()

    async with serving(script) as server:
        connections = Connections(Endpoint.parse(server.url))
        answer = Answer(on_text)
        await answer.run(connections, "/chat/completions", "k", BODY)
        connections.close()
    assert [text for text, _ in heard] == answer.text == ["a", "b"]
    assert [at for _, at in heard] == answer.token_times
    first, second = answer.token_times
    assert answer.started < first < second < answer.ended
    assert answer.ttft_s == first - answer.started
    assert answer.gaps_s == [second - first]
    assert (answer.ok, answer.finish_reason, answer.output_tokens, answer.prompt_tokens) == (True, "stop", 2, 5)


async def test_a_plain_answer() -> None:
    answer = await ask(lambda call: call.answer(["a", "b", "c"]), {**BODY, "stream": False})
    assert (answer.ok, "".join(answer.text), answer.output_tokens, answer.cached_tokens) == (True, "abc", 3, 3)


async def test_text_completions_are_read_too() -> None:
    async def script(call: Call) -> None:
        await call.open_stream()
        await call.event({"choices": [{"index": 0, "text": "x", "finish_reason": "length"}]})
        await call.end_stream()

    answer = await ask(script)
    assert (answer.ok, answer.text, answer.finish_reason) == (True, ["x"], "length")


@pytest.mark.parametrize(
    ("status", "code"), [(401, "invalid_api_key"), (429, "rate_limit_exceeded"), (503, "overloaded")]
)
async def test_a_refusal_keeps_its_status_and_code(status: int, code: str) -> None:
    answer = await ask(lambda call: call.error(status, code))
    assert (answer.ok, answer.status, answer.error_code, answer.error_message) == (False, status, code, f"no: {code}")


async def test_an_error_in_the_middle_of_a_stream_is_the_answer_s_error() -> None:
    async def script(call: Call) -> None:
        await call.open_stream()
        await call.text("a")
        await call.event({"error": {"message": "gone", "code": "worker_lost"}})
        await call.end_stream(done=False)

    answer = await ask(script)
    assert (answer.ok, answer.text, answer.error_code) == (False, ["a"], "worker_lost")


async def test_a_stream_without_its_end_is_truncated_and_a_cut_one_lost() -> None:
    async def ends_early(call: Call) -> None:
        await call.open_stream()
        await call.text("a")
        await call.end_stream(done=False)

    async def cut(call: Call) -> None:
        await call.open_stream()
        await call.text("a")
        call.writer.transport.abort()

    assert (await ask(ends_early)).error_code == "truncated"
    assert (await ask(cut)).error_code == "connection_lost"


@pytest.mark.parametrize("data", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx"])
async def test_what_is_no_answer_is_a_failure_not_an_exception(data: bytes) -> None:
    answer = await ask(lambda call: call.raw(data))
    assert not answer.ok
    assert answer.error_code in ("connection_lost", "http_200")


@pytest.mark.parametrize("event", ["not json", "3", "null", '"text"'])
async def test_an_event_that_is_none_is_a_failure(event: str) -> None:
    async def script(call: Call) -> None:
        await call.open_stream()
        await call.event(event)
        await call.end_stream()

    assert (await ask(script)).error_code == "bad_event"


async def test_a_closed_port_is_unreachable() -> None:
    async with serving(lambda call: call.answer([])) as server:
        url = server.url
    with pytest.raises(Unreachable, match=r"cannot reach http://127\.0\.0\.1:\d+/v1: "):
        await Answer().run(Connections(Endpoint.parse(url)), "/chat/completions", "", BODY)


async def test_tls_with_an_endpoint_that_has_none_says_so() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(Unreachable, match="no TLS with https://"):
            await Answer().run(Connections(Endpoint.parse(url)), "/chat/completions", "", BODY)


async def test_a_connection_is_used_again_unless_it_was_cut() -> None:
    async with serving(lambda call: call.answer(["a"])) as server:
        connections = Connections(Endpoint.parse(server.url))
        for _ in range(3):
            await Answer().run(connections, "/chat/completions", "", BODY)
        assert server.connections == 1
        connections.close()


async def test_cancelling_a_call_closes_its_connection() -> None:
    gone = asyncio.Event()
    started = asyncio.Event()

    async def endless(call: Call) -> None:
        await call.open_stream()
        try:
            while True:
                await call.text("a")
                started.set()
                await asyncio.sleep(0.001)
        except ConnectionError:
            gone.set()
            raise

    async with serving(endless) as server, asyncio.timeout(20):
        connections = Connections(Endpoint.parse(server.url))
        call = asyncio.create_task(Answer().run(connections, "/chat/completions", "", BODY))
        await started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await gone.wait()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=8), st.data())
def test_events_are_the_same_however_the_bytes_are_cut(texts: list[str], data: st.DataObject) -> None:
    newline = data.draw(st.sampled_from(["\n", "\r\n"]))
    raw = "".join(
        f"{': comment' + newline if index % 2 else ''}data: {json.dumps(text)}{newline}{newline}"
        for index, text in enumerate(texts)
    ).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    heard: list[str] = []
    stream = EventStream(lambda event, at: heard.append(json.loads(event)))
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        stream.feed(raw[start:end], 0.0)
    assert heard == texts


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
        ("https://api.example.org/v1/", "https://api.example.org:443/v1"),
        ("http://[::1]:80/openai/v1", "http://[::1]:80/openai/v1"),
    ],
)
def test_addresses(url: str, shown: str) -> None:
    assert Endpoint.parse(url).url == shown


@pytest.mark.parametrize("url", ["", "127.0.0.1:8080", "ftp://x", "http://", "http://x:y", "http://x:99999"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="is not an address"):
        Endpoint.parse(url)
