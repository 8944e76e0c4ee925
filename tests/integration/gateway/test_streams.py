"""Streamed answers (S01–S04, S06): what they are made of, and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.contracts.errors import DropReason, RequestCancelled, Unavailable, WorkerLost
from control_plane.contracts.worker import Delta
from tests.integration.gateway.rig import MODEL, Rig, chat_body, events, joined, request, say
from tests.unit.gateway.fakes import Submitted
from tests.unit.gateway.tokenizers import reference


@pytest.mark.parametrize("cut", [["F09F", "9880", "ED95", "9C"], ["F0", "9F9880ED", "959C"]])
async def test_characters_that_came_in_pieces_are_whole(rig: Rig, cut: list[str]) -> None:
    """S01: What the worker holds back until it is whole reaches the client as it is, in both modes."""
    pieces, held = [], b""
    for part in cut:
        held += bytes.fromhex(part)
        try:
            pieces.append(held.decode())
            held = b""
        except UnicodeDecodeError:
            pieces.append("")
    rig.router.play = lambda submitted: say(submitted, pieces)
    streamed, plain = await rig.chat(stream=True), await rig.chat()
    assert joined(streamed.body) == plain.json["choices"][0]["message"]["content"] == "😀한"
    assert "\ufffd" not in streamed.body.decode()


async def test_a_stream_from_head_to_done(rig: Rig) -> None:
    """S04, and S03: usage that nobody asked for never comes."""
    answer = await rig.chat(stream=True, max_tokens=3)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    found = events(answer.body)
    assert found.pop() == "[DONE]"
    choices = [event["choices"][0] for event in found]
    assert [choice["delta"] for choice in choices] == [
        {"role": "assistant", "content": ""},
        {"content": " word"},
        {"content": " word"},
        {"content": " word"},
        {},
    ]
    assert [choice["finish_reason"] for choice in choices] == [None, None, None, None, "length"]
    assert all(set(choice) == {"index", "delta", "logprobs", "finish_reason"} for choice in choices)
    for name in ("id", "created", "model", "object", "system_fingerprint"):
        assert len({event[name] for event in found}) == 1
    assert found[0]["object"] == "chat.completion.chunk"
    assert found[0]["model"] == MODEL
    assert all("usage" not in event for event in found)


async def test_usage_comes_once_and_only_when_asked_for(rig: Rig) -> None:
    """S03."""
    rig.router.play = lambda submitted: say(submitted, ["a", "b"], cached=3)
    answer = await rig.chat(stream=True, n=2, stream_options={"include_usage": True})
    found = events(answer.body)
    assert found.pop() == "[DONE]"
    last = found.pop()
    assert last["choices"] == []
    prompt = len(rig.router.submitted[0].call.prompt_token_ids)
    assert last["usage"] == {
        "prompt_tokens": prompt,
        "completion_tokens": 4,
        "total_tokens": prompt + 4,
        "prompt_tokens_details": {"cached_tokens": 3},
    }
    assert all(event["usage"] is None for event in found)
    assert (await rig.chat(n=2)).json["usage"] == last["usage"]
    refused = await rig.chat(stream_options={"include_usage": True})
    assert (refused.status, refused.error["param"]) == (400, "stream_options")


async def test_usage_agrees_with_the_tokenizer(rig: Rig) -> None:
    answer = await rig.chat("the quick brown fox <p>", max_tokens=2)
    text = "<|im_start|>user\nthe quick brown fox <p><|im_end|>\n<|im_start|>assistant\n"
    assert list(rig.router.submitted[0].call.prompt_token_ids) == reference(text)
    assert answer.json["usage"]["prompt_tokens"] == len(reference(text))


async def test_a_worker_that_is_lost(rig: Rig) -> None:
    """S06: in mid-stream an error event, and nothing after it."""
    rig.router.play = lambda submitted: submitted.sink.failed(WorkerLost("lost before the first token"))
    for stream in (True, False):
        answer = await rig.chat(stream=stream)
        assert (answer.status, answer.error["code"]) == (502, "worker_lost")

    def die(submitted: Submitted) -> None:
        for _ in range(3):
            submitted.sink.delta(Delta(1, [5], "x"))
        submitted.sink.failed(WorkerLost("lost after 3 tokens"))

    rig.router.play = die
    answer = await rig.chat(stream=True)
    assert answer.status == 200
    assert answer.headers.get("connection") is None
    found = events(answer.body)
    assert found[-1] == {
        "error": {"message": "lost after 3 tokens", "type": "server_error", "param": None, "code": "worker_lost"}
    }
    assert joined(answer.body) == "xxx"
    assert (await rig.chat()).error["code"] == "worker_lost"
    await rig.idle()


async def test_the_connection_goes_on_after_an_error_event(rig: Rig) -> None:
    """S06: the body ends whole."""

    def die(submitted: Submitted) -> None:
        submitted.sink.delta(Delta(1, [5], "x"))
        submitted.sink.failed(WorkerLost("gone"))

    play, rig.router.play = rig.router.play, die
    client = await rig.connect()
    client.send(request(body=chat_body(stream=True)))
    lost = await client.answer()
    assert lost.headers.get("connection") != "close"
    assert b"worker_lost" in lost.body
    rig.router.play = play
    client.send(request(body=chat_body()))
    assert (await client.answer()).status == 200


async def test_what_an_operator_cancels(rig: Rig) -> None:
    """C04: what the client of a cancelled call hears."""

    def cancel(submitted: Submitted) -> None:
        if submitted.call.stream:
            submitted.sink.delta(Delta(1, [5], "x"))
        submitted.sink.failed(RequestCancelled("The request was cancelled by an operator.", retry=False))

    rig.router.play = cancel
    assert events((await rig.chat(stream=True)).body)[-1]["error"]["code"] == "request_cancelled"
    plain = await rig.chat()
    assert (plain.status, plain.error["code"], plain.headers["x-should-retry"]) == (499, "request_cancelled", "false")


async def test_a_deadline_in_the_queue_has_its_status_also_for_a_stream(rig: Rig) -> None:
    rig.router.play = lambda submitted: submitted.sink.failed(Unavailable("full", reason=DropReason.OVERLOADED))
    answer = await rig.chat(stream=True)
    assert (answer.status, answer.error["code"]) == (503, "overloaded")
    assert "retry-after" in answer.headers


@pytest.mark.parametrize(
    ("stop", "passed_on"),
    [("a", ("a",)), (None, ()), ([], ()), (["a", "b", "c", "d"], ("a", "b", "c", "d"))],
)
async def test_stop_strings_in_every_form(rig: Rig, stop: Any, passed_on: tuple[str, ...]) -> None:
    """S02."""
    assert (await rig.chat(stop=stop)).status == 200
    assert rig.router.submitted[0].call.sampling.stop == passed_on


@pytest.mark.parametrize(("stop", "code"), [(["a"] * 5, "array_above_max_length"), ("", "empty_string")])
async def test_stop_strings_that_are_none(rig: Rig, stop: Any, code: str) -> None:
    """S02."""
    answer = await rig.chat(stop=stop)
    assert (answer.status, answer.error["code"], answer.error["param"]) == (400, code, "stop")
