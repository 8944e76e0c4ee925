from __future__ import annotations

import json
from typing import Any

from console.learn.wire import WireAnswer, wire_lines
from console.text import width

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi \x1b[31m"}]}


def streamed(events: list[Any]) -> WireAnswer:
    answer = WireAnswer()
    answer.head(200, {"content-type": "text/event-stream", "x-request-id": "req-1", "date": "today"}, answer.started)
    for number, event in enumerate(events):
        data = event if isinstance(event, str) else json.dumps(event)
        answer.body(f"data: {data}\n\n".encode(), answer.started + number / 4)
    return answer


def chunk(text: str) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None}
    return {"id": "chatcmpl-1", "model": "m", "choices": [choice], "usage": None}


def test_a_stream_has_its_first_and_last_events_with_their_times() -> None:
    answer = streamed([*(chunk(f"w{number}") for number in range(12)), "[DONE]"])
    assert answer.events == 13
    lines = list(wire_lines("/v1/chat/completions", BODY, answer, 75))
    assert lines[0] == "> POST /v1/chat/completions"
    assert "< 200" in lines
    assert "< x-request-id: req-1" in lines
    assert not any("date" in line for line in lines)
    events = [line for line in lines if "data:" in line]
    assert len(events) == 8
    assert events[1].endswith('250 ms  data: … "delta": {"content": "w1"}')
    assert events[-1].endswith("3.00 s  data: [DONE]")
    assert "  … 5 events more" in lines


def test_what_an_event_says_is_seen_beside_a_lessons_words() -> None:
    role = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length", "stop_reason": None}]}
    counts = {"prompt_tokens": 33, "completion_tokens": 24, "total_tokens": 57}
    usage = {"choices": [], "usage": {**counts, "prompt_tokens_details": {"cached_tokens": 0}}}
    answer = streamed([role, chunk(" unbelievable"), end, usage, "[DONE]"])
    lines = list(wire_lines("/v1/chat/completions", BODY, answer, 56))
    events = [line[11:] for line in lines[lines.index("< x-request-id: req-1") + 1 :]]
    assert events == [
        'data: … "delta": {"content": "", "role":',
        '"assistant"}',
        'data: … "delta": {"content": " unbelievable"}',
        'data: … "finish_reason": "length"',
        'data: … "usage": {"prompt_tokens": 33,',
        '"completion_tokens": 24, "total_tokens": 57}',
        "data: [DONE]",
    ]


def test_a_short_stream_is_shown_whole() -> None:
    lines = list(wire_lines("/v1/completions", {}, streamed([chunk("a"), "[DONE]"]), 75))
    assert sum("data:" in line for line in lines) == 2
    assert not any("more" in line for line in lines)


def test_nothing_of_it_acts_on_a_terminal_or_is_wider_than_the_room() -> None:
    answer = streamed([chunk("\x1b[31m" + "long " * 40), "[DONE]"])
    lines = list(wire_lines("/v1/chat/completions", BODY, answer, 60))
    assert "\x1b" not in "".join(lines)
    assert all(width(line) <= 60 for line in lines)


def test_an_answer_in_one_piece_is_its_body_and_a_long_prompt_its_beginning() -> None:
    answer = WireAnswer()
    answer.head(429, {"content-type": "application/json", "retry-after": "7"}, answer.started)
    answer.body(b'{"error": {"code": "rate_limit_exceeded"}}', answer.started)
    lines = list(wire_lines("/v1/completions", {"prompt": list(range(300, 390))}, answer, 75))
    assert '> {"prompt": [300, 301, 302, "… 90 token ids"]}' in lines
    assert [line for line in lines if "content-type" not in line][-3:] == [
        "< 429",
        "< retry-after: 7",
        '< {"error": {"code": "rate_limit_exceeded"}}',
    ]


def test_the_lines_of_an_answer_in_one_piece_end_between_its_words() -> None:
    answer = WireAnswer()
    answer.head(200, {}, answer.started)
    answer.body(b'{"object":"text_completion","choices":[{"text":" of the way","finish_reason":"length"}]}', 0.0)
    lines = list(wire_lines("/v1/completions", {}, answer, 56))
    assert lines[-2:] == [
        '< {"object": "text_completion", "choices": [{"text": "',
        '< of the way", "finish_reason": "length"}]}',
    ]
    cut = WireAnswer()
    cut.head(200, {}, cut.started)
    cut.body(b'{"object": "te', 0.0)
    assert list(wire_lines("/v1/completions", {}, cut, 56))[-1] == '< {"object": "te'


def test_what_only_reads_has_no_body() -> None:
    lines = list(wire_lines("/v1/models", None, WireAnswer(), 75))
    assert lines == ["> GET /v1/models", "", "< no answer"]
