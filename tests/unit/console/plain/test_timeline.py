from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from console.plain.timeline import stage_notes, step_lines, timeline_lines
from console.text import width
from control_plane.contracts.fleet import RequestPhase, RequestView
from control_plane.contracts.timeline import Span, Timeline

REQUEST = RequestView(id="req-1", gateway_id="g1", model="m", phase=RequestPhase.FINISHED)


def step(number: int, took: float, parent: str = "decode", **said: str) -> Span:
    attributes = {"step": str(number), "kind": parent, "tokens": "1", "batch": "2", "batch_tokens": "2", **said}
    return Span("step", "engine/w1", number * 0.1, took, parent, attributes)


SPANS = (
    Span("queue", "router/g1", 0.0, 0.4),
    Span("prefill", "worker/w1", 0.4, 0.2),
    Span("decode", "worker/w1", 0.6, 1.0),
    step(4, 0.1, "prefill", tokens="256", cached_tokens="32", began="joined"),
    step(5, 0.1, "prefill", tokens="132"),
    *(step(number, 0.05, batch=str(2 + number % 2)) for number in range(6, 12)),
    step(12, 0.310, prefill_beside="d12 (256 tokens)"),
    Span("preempted", "engine/w1", 1.2, 0.12, "decode"),
)


def test_each_stage_says_what_its_steps_were() -> None:
    timeline = Timeline(REQUEST, SPANS)
    assert stage_notes(timeline, SPANS[1]) == ["2 steps: 256 + 132 tokens, 32 from the cache"]
    assert stage_notes(timeline, SPANS[2]) == [
        "7 steps of 50.0 ms (median), in a batch of 2 to 3",
        "1 stall, the longest 310 ms at step 12, beside the prefill of d12 (256 tokens)",
        "preempted once, 120 ms in all",
    ]
    assert stage_notes(timeline, SPANS[0]) == []


def test_the_notes_stand_under_their_bars() -> None:
    lines = list(timeline_lines(Timeline(REQUEST, SPANS, missing_steps=2), 1.6, 100))
    heads = [line.split()[0] for line in lines]
    assert heads == ["queue", "prefill", "2", "decode", "7", "1", "preempted", "2"]
    assert lines[-1] == "2 steps of it not traced, or no longer kept"


def test_every_step_can_be_read() -> None:
    lines = list(step_lines(Timeline(REQUEST, SPANS)))
    assert len(lines) == 1 + 9 + 1
    assert "d12 (256 tokens)" in lines[-2]


def test_a_request_without_steps_is_its_stages() -> None:
    assert len(list(timeline_lines(Timeline(REQUEST, SPANS[:3]), 1.6, 80))) == 3


def test_an_attempt_whose_steps_are_not_kept_says_so_and_takes_none_of_another_s() -> None:
    def of(attempt: int, *spans: Span) -> list[Span]:
        return [dataclasses.replace(s, attributes={**s.attributes, "attempt": str(attempt)}) for s in spans]

    first = of(1, Span("first_token", "worker/w0", 0.1, 0.1), Span("decode", "worker/w0", 0.2, 0.2))
    timeline = Timeline(REQUEST, (*first, *of(2, *SPANS)))
    assert stage_notes(timeline, first[0]) == ["at w0, whose steps of it are not kept"]
    assert stage_notes(timeline, first[1]) == []
    second = [span for span in timeline.spans if span.attempt == 2 and not span.parent]
    assert stage_notes(timeline, second[1]) == ["2 steps: 256 + 132 tokens, 32 from the cache"]


hostile = st.text(max_size=8) | st.just("\x1b[31m")


@given(st.lists(st.builds(Span, hostile, hostile, st.floats(-1, 9), st.floats(-1, 9)), max_size=5), st.integers(1, 90))
def test_nothing_is_wider_than_its_room_or_reaches_the_terminal(spans: list[Span], room: int) -> None:
    timeline = Timeline(dataclasses.replace(REQUEST, phase=RequestPhase.DECODING), tuple(spans), missing_steps=1)
    for line in timeline_lines(timeline, 3.0, room):
        assert width(line) <= room
        assert "\x1b" not in line
