"""What the parts of an answer say, whole and in events."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.worker import Done, TokenLogprob
from control_plane.gateway.answer.bodies import Choice, chat_body, completion_body
from control_plane.gateway.answer.events import ChatEvents, CompletionEvents
from control_plane.gateway.answer.heading import Heading
from control_plane.gateway.answer.json_text import quoted
from control_plane.gateway.answer.logprobs import FLOOR, ChatLogprobs, CompletionLogprobs, text_tokens

HEADING = Heading("id-1", 1234, 'model "x"', "fp_1")
DONE = Done(prompt_tokens=7, cached_tokens=4, output_tokens=3)
USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 3,
    "total_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 4},
}
TOKENS = (
    TokenLogprob(5, b"hi", -0.5, 1, (TokenLogprob(5, b"hi", -0.5), TokenLogprob(6, b"ho", -math.inf))),
    TokenLogprob(9, "é".encode()[:1], math.nan),
)


def event(text: str) -> dict[str, Any]:
    assert text.startswith("data: ")
    assert text.endswith("\n\n")
    found: dict[str, Any] = json.loads(text[6:])
    return found


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_quoted_text_is_json_of_a_single_line(text: str) -> None:
    shown = quoted(text)
    assert json.loads(shown) == text
    assert len(shown.splitlines()) == 1
    assert shown.encode()


def test_the_events_of_a_chat() -> None:
    events = ChatEvents(HEADING, with_usage=False)
    common = {
        "id": "id-1",
        "object": "chat.completion.chunk",
        "created": 1234,
        "model": 'model "x"',
        "system_fingerprint": "fp_1",
    }

    def chunk(delta: dict[str, Any], finish: str | None = None, logprobs: Any = None) -> dict[str, Any]:
        choice = {"index": 1, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return common | {"choices": [choice]}

    assert event(events.opening(1)) == chunk({"role": "assistant", "content": ""})
    assert event(events.before(1) + quoted("a\nb") + events.after) == chunk({"content": "a\nb"})
    assert event(events.closing(1, "stop")) == chunk({}, "stop")
    assert event(events.usage(DONE)) == common | {"choices": [], "usage": USAGE}
    shown = event(events.with_logprobs(1, "hi", TOKENS[:1]))["choices"][0]
    assert shown["delta"] == {"content": "hi"}
    assert shown["logprobs"]["content"][0]["token"] == "hi"


def test_usage_is_null_in_every_event_before_the_one_that_has_it() -> None:
    for events in (ChatEvents(HEADING, with_usage=True), CompletionEvents(HEADING, with_usage=True, echo="x")):
        for text in (
            events.opening(0),
            events.before(0) + '"x"' + events.after,
            events.with_logprobs(0, "x", TOKENS),
            events.closing(0, "length"),
        ):
            assert event(text)["usage"] is None
        assert event(events.usage(DONE))["usage"] == USAGE


def test_the_events_of_a_completion() -> None:
    events = CompletionEvents(HEADING, with_usage=False, echo="say: ")
    assert event(events.opening(0))["choices"] == [
        {"index": 0, "text": "say: ", "logprobs": None, "finish_reason": None}
    ]
    assert CompletionEvents(HEADING, with_usage=False).opening(0) == ""
    assert event(events.closing(2, "length"))["choices"] == [
        {"index": 2, "text": "", "logprobs": None, "finish_reason": "length"}
    ]
    first = event(events.with_logprobs(0, "hi", TOKENS[:1]))["choices"][0]["logprobs"]
    second = event(events.with_logprobs(0, "hi", TOKENS[:1]))["choices"][0]["logprobs"]
    other = event(events.with_logprobs(1, "hi", TOKENS[:1]))["choices"][0]["logprobs"]
    assert [first["text_offset"], second["text_offset"], other["text_offset"]] == [[0], [2], [0]]


def test_whole_answers() -> None:
    choices = [Choice("one", "stop", None), Choice("", "length", ChatLogprobs())]
    assert json.loads(chat_body(HEADING)(choices, DONE)) == {
        "id": "id-1",
        "object": "chat.completion",
        "created": 1234,
        "model": 'model "x"',
        "system_fingerprint": "fp_1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "one", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            },
            {
                "index": 1,
                "message": {"role": "assistant", "content": "", "refusal": None},
                "logprobs": {"content": [], "refusal": None},
                "finish_reason": "length",
            },
        ],
        "usage": USAGE,
    }
    body = json.loads(completion_body(HEADING, "said: ")([Choice("x", "stop", CompletionLogprobs(TOKENS))], DONE))
    assert body["object"] == "text_completion"
    assert body["choices"][0]["text"] == "said: x"
    assert body["choices"][0]["logprobs"] == {
        "tokens": ["hi", "\\xc3"],
        "token_logprobs": [-0.5, FLOOR],
        "top_logprobs": [{"hi": -0.5, "ho": FLOOR}, {}],
        "text_offset": [0, 2],
    }


def test_log_probabilities_of_a_chat_are_finite_and_their_bytes_exact() -> None:
    body = json.loads(chat_body(HEADING)([Choice("x", "stop", ChatLogprobs(TOKENS))], DONE))
    first, second = body["choices"][0]["logprobs"]["content"]
    assert first["top_logprobs"] == [
        {"token": "hi", "logprob": -0.5, "bytes": [104, 105]},
        {"token": "ho", "logprob": FLOOR, "bytes": [104, 111]},
    ]
    assert second == {"token": "\\xc3", "logprob": FLOOR, "bytes": [0xC3], "top_logprobs": []}


@pytest.mark.parametrize("control", [frozenset(), frozenset({9})])
def test_control_tokens_have_no_entry(control: frozenset[int]) -> None:
    assert [entry.token_id for entry in text_tokens(TOKENS, control)] == ([5] if control else [5, 9])
