from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.errors import WorkerLost
from control_plane.contracts.worker import Delta, Done, Finish, FinishReason, TokenLogprob
from control_plane.gateway.answer import stream_sink
from control_plane.gateway.answer.bodies import chat_body
from control_plane.gateway.answer.events import ChatEvents
from control_plane.gateway.answer.heading import Heading
from control_plane.gateway.answer.logprobs import ChatLogprobs
from control_plane.gateway.answer.plain_sink import PlainSink
from control_plane.gateway.answer.sink import Shape
from control_plane.gateway.answer.stream_sink import StreamSink
from tests.unit.gateway.fakes import Wire, exchange_on

HEADING = Heading("id", 1, "m", "fp")
DONE = Done(3, 0, 2)
STOP = Finish(FinishReason.STOP, 2)
LENGTH = Finish(FinishReason.LENGTH, 2)


class Owner:
    def __init__(self) -> None:
        self.output_tokens = 0
        self.ends = 0
        self.stops = 0

    def ended(self) -> None:
        self.ends += 1

    def stop(self) -> None:
        self.stops += 1


class Rig:
    def __init__(self, *, stream: bool = True, choices: int = 1, logprobs: bool = False, usage: bool = False) -> None:
        self.wire = Wire()
        self.exchange = exchange_on(self.wire)
        self.owner = Owner()
        self.sink: StreamSink[ChatEvents] | PlainSink
        shape = Shape(choices, logprobs, frozenset({2}))
        if stream:
            self.sink = StreamSink(
                self.owner,
                self.exchange,
                ChatEvents(HEADING, with_usage=usage),
                self.owner,
                shape,
            )
        else:
            self.sink = PlainSink(
                self.owner,
                self.exchange,
                chat_body(HEADING),
                self.owner,
                shape,
                logprobs=ChatLogprobs,
            )

    @property
    def body(self) -> bytes:
        return self.wire.data.partition(b"\r\n\r\n")[2]

    @property
    def events(self) -> list[Any]:
        blocks = self.body.split(b"\n\n")
        assert blocks.pop() == b""
        texts = [block.removeprefix(b"data: ") for block in blocks]
        return [text.decode() if text == b"[DONE]" else json.loads(text) for text in texts]

    @property
    def content(self) -> str:
        return "".join(
            choice["delta"].get("content", "")
            for event in self.events
            if isinstance(event, dict)
            for choice in event.get("choices", [])
        )


def test_a_stream_from_its_first_token_to_its_end() -> None:
    rig = Rig()
    rig.sink.delta(Delta(1, [5], "he"))
    assert len(rig.wire.writes) == 1
    assert b"text/event-stream" in rig.wire.data
    rig.sink.delta(Delta(1, [6], ""))
    rig.sink.delta(Delta(1, [7], "llo"))
    assert len(rig.wire.writes) == 2
    rig.sink.delta(Delta(1, [2], finish=STOP, done=DONE))
    deltas = [event["choices"][0] for event in rig.events[:-1]]
    assert [choice["delta"] for choice in deltas] == [
        {"role": "assistant", "content": ""},
        {"content": "he"},
        {"content": "llo"},
        {},
    ]
    assert [choice["finish_reason"] for choice in deltas] == [None, None, None, "stop"]
    assert rig.events[-1] == "[DONE]"
    assert (rig.owner.output_tokens, rig.owner.ends, rig.wire.finished) == (4, 1, True)


def test_text_in_the_last_delta_comes_before_the_finish() -> None:
    rig = Rig(usage=True)
    rig.sink.delta(Delta(1, [5], "x", finish=LENGTH, done=DONE))
    assert [event["choices"][0]["delta"] for event in rig.events[:3]] == [
        {"role": "assistant", "content": ""},
        {"content": "x"},
        {},
    ]
    assert rig.events[3]["choices"] == []
    assert rig.events[3]["usage"]["total_tokens"] == 5
    assert rig.events[4] == "[DONE]"


def test_choices_open_once_each_and_finish_each_by_itself() -> None:
    rig = Rig(choices=2)
    rig.sink.delta(Delta(1, [5], "a", choice=1))
    rig.sink.delta(Delta(1, [5], "b", choice=0, finish=STOP))
    rig.sink.delta(Delta(1, [5], "c", choice=1, finish=LENGTH, done=DONE))
    seen: dict[int, list[Any]] = {0: [], 1: []}
    for event in rig.events[:-1]:
        choice = event["choices"][0]
        seen[choice["index"]].append(choice["finish_reason"] or choice["delta"])
    assert seen == {
        0: [{"role": "assistant", "content": ""}, {"content": "b"}, "stop"],
        1: [{"role": "assistant", "content": ""}, {"content": "a"}, {"content": "c"}, "length"],
    }


def test_a_failure_before_the_first_token_has_its_status() -> None:
    rig = Rig()
    rig.sink.failed(WorkerLost("gone"))
    assert rig.wire.data.startswith(b"HTTP/1.1 502 ")
    assert json.loads(rig.body)["error"]["code"] == "worker_lost"
    assert rig.owner.ends == 1


def test_a_failure_in_mid_stream_is_the_last_event() -> None:
    rig = Rig()
    rig.sink.delta(Delta(1, [5], "x"))
    rig.sink.failed(WorkerLost("gone"))
    assert rig.events[-1]["error"]["code"] == "worker_lost"
    assert b"[DONE]" not in rig.body
    assert not rig.exchange.keep_alive
    rig.sink.delta(Delta(1, [5], "y"))
    rig.sink.failed(WorkerLost("again"))
    assert (rig.content, rig.owner.ends) == ("x", 1)


def test_an_answer_that_was_aborted_does_not_look_whole() -> None:
    for stream in (True, False):
        rig = Rig(stream=stream)
        rig.sink.delta(Delta(1, [5], "x"))
        rig.sink.delta(Delta(1, [], finish=Finish(FinishReason.ABORT, 1), done=DONE))
        assert b"request_cancelled" in rig.body
        assert b"[DONE]" not in rig.body
        assert rig.owner.ends == 1


def test_what_comes_after_the_client_left_is_dropped() -> None:
    rig = Rig()
    rig.sink.close()
    rig.sink.delta(Delta(1, [5], "x"))
    rig.sink.failed(WorkerLost("gone"))
    assert rig.wire.writes == []
    assert rig.owner.ends == 0


def test_a_slow_reader_gets_everything_later_in_fewer_pieces() -> None:
    rig = Rig()
    rig.sink.delta(Delta(1, [5], "a"))
    rig.exchange.paused = True
    for text in "bcde":
        rig.sink.delta(Delta(1, [5], text))
    assert len(rig.wire.writes) == 1
    rig.exchange.paused = False
    assert rig.exchange.on_drained is not None
    rig.exchange.on_drained()
    assert len(rig.wire.writes) == 2
    rig.exchange.paused = True
    rig.sink.delta(Delta(1, [5], "f"))
    rig.sink.delta(Delta(1, [2], finish=STOP, done=DONE))
    assert rig.owner.ends == 0
    rig.exchange.paused = False
    rig.exchange.on_drained()
    assert (rig.content, rig.events[-1], rig.owner.ends) == ("abcdef", "[DONE]", 1)


def test_what_is_held_for_a_slow_reader_comes_before_an_error() -> None:
    rig = Rig()
    rig.sink.delta(Delta(1, [5], "a"))
    rig.exchange.paused = True
    rig.sink.delta(Delta(1, [5], "b"))
    rig.sink.failed(WorkerLost("gone"))
    assert rig.content == "ab"
    assert rig.events[-1]["error"]["code"] == "worker_lost"


@pytest.mark.parametrize("text", ["b" * 10, ""])
def test_a_reader_that_has_stopped_is_dropped_when_too_much_is_held(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(stream_sink, "MAX_HELD", 40)
    rig = Rig()
    rig.sink.delta(Delta(1, [5], "a"))
    rig.exchange.paused = True
    rig.sink.delta(Delta(1, [5], text))
    assert not rig.wire.aborted
    for _ in range(2):
        rig.sink.delta(Delta(1, [5], text))
    assert rig.wire.aborted


def test_what_is_held_is_not_copied_for_every_token() -> None:
    rig = Rig()
    rig.sink.delta(Delta(1, [5], "a"))
    rig.exchange.paused = True
    first = Delta(1, [5], "b" * 1000)
    rig.sink.delta(first)
    tracemalloc.start()
    try:
        for _ in range(10):
            rig.sink.delta(Delta(1, [5], "c" * 1000))
            tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        rig.sink.delta(Delta(1, [5], "c"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < 5_000


def test_log_probabilities_come_with_the_step_that_made_them() -> None:
    rig = Rig(logprobs=True)
    rig.sink.delta(Delta(1, [5], "", logprobs=(TokenLogprob(5, b"\xf0\x9f", -1.0),)))
    rig.sink.delta(Delta(1, [6], "😀", logprobs=(TokenLogprob(6, b"\x98\x80", -1.0),)))
    rig.sink.delta(Delta(1, [2], logprobs=(TokenLogprob(2, b"<|im_end|>", -1.0),), finish=STOP, done=DONE))
    entries = [
        entry for event in rig.events[:-1] for entry in (event["choices"][0]["logprobs"] or {"content": []})["content"]
    ]
    assert bytes(byte for entry in entries for byte in entry["bytes"]).decode() == rig.content == "😀"


def test_one_body_when_everything_is_there() -> None:
    rig = Rig(stream=False, choices=2, logprobs=True)
    rig.sink.delta(Delta(1, [5], "a", logprobs=(TokenLogprob(5, b"a", -1.0),)))
    rig.sink.delta(Delta(1, [6], "x", choice=1, finish=LENGTH))
    assert rig.wire.writes == []
    rig.sink.delta(Delta(1, [7], "b", logprobs=(TokenLogprob(7, b"b", -1.0),), finish=STOP, done=DONE))
    choices = json.loads(rig.body)["choices"]
    assert [(choice["message"]["content"], choice["finish_reason"]) for choice in choices] == [
        ("ab", "stop"),
        ("x", "length"),
    ]
    assert [len(choice["logprobs"]["content"]) for choice in choices] == [2, 0]


def test_a_failure_of_a_plain_call() -> None:
    rig = Rig(stream=False)
    rig.sink.delta(Delta(1, [5], "half"))
    rig.sink.failed(WorkerLost("gone"))
    assert rig.wire.data.startswith(b"HTTP/1.1 502 ")
    assert b"half" not in rig.body


@pytest.mark.parametrize("stream", [True, False])
def test_a_delta_that_cannot_be_written_ends_the_call_and_never_reaches_the_router(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(stream=stream)
    rig.exchange.request_id = "req-1"
    rig.sink.delta(Delta(1, [5], "x"))
    rig.sink.delta(Delta(1, [5], "\ud800", choice=7, finish=STOP, done=DONE))
    assert rig.owner.stops == 1
    assert rig.owner.ends == 1
    assert b"internal_error" in rig.body
    assert [vars(record).get("request_id") for record in caplog.records] == ["req-1"]


Cut = Callable[[str], list[str]]


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
    st.lists(st.integers(0, 30), max_size=6),
    st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_however_the_text_is_cut_and_the_reader_stalls_the_joined_stream_is_the_plain_answer(
    text: str, cuts: list[int], stalls: list[bool]
) -> None:
    """F1, at the gateway."""
    edges = sorted({0, *(min(cut, len(text)) for cut in cuts), len(text)})
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
    streamed, plain = Rig(), Rig(stream=False)
    for index, piece in enumerate(pieces):
        last = index == len(pieces) - 1
        delta = Delta(1, [5], piece, finish=STOP if last else None, done=DONE if last else None)
        streamed.exchange.paused = stalls[index % len(stalls)]
        streamed.sink.delta(delta)
        plain.sink.delta(delta)
        if streamed.exchange.on_drained is not None and index % 2:
            streamed.exchange.paused = False
            streamed.exchange.on_drained()
    streamed.exchange.paused = False
    if streamed.exchange.on_drained is not None:
        streamed.exchange.on_drained()
    assert streamed.content == json.loads(plain.body)["choices"][0]["message"]["content"] == text
    assert streamed.events[-1] == "[DONE]"
