"""The way of a call's tokens, from what the platform and the client say."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from console.learn.calls import Made
from console.learn.token_way import hop_lines, hops_seen
from console.learn.wire import WireAnswer
from console.text import width
from control_plane.contracts.fleet import RequestPhase, RequestView
from control_plane.contracts.timeline import ClockSkew, Span, Timeline
from lessons.actions import Shape

BEGAN = 5000.0
CAME = 0.25
"""How long after the client began the gateway had the call."""


def step(number: int, start_s: float, kind: str = "decode", **more: str) -> Span:
    attributes = {"step": str(number), "kind": kind, **more}
    return Span("step", "engine/w-1", start_s, 0.5, "decode", attributes)


def timeline(*spans: Span, ahead_s: float = 0.0, uncertainty_s: float = 0.01, missing: int = 0) -> Timeline:
    """Steps as the platform tells them: corrected by what was measured of the worker's clock."""
    request = RequestView("r", "g1", "m", RequestPhase.FINISHED, arrival_unix=BEGAN + CAME)
    told = tuple(replace(span, start_s=span.start_s - ahead_s) for span in spans)
    return Timeline(request, told, (ClockSkew("worker/w-1", ahead_s, uncertainty_s),), missing)


def streamed(count: int, *, stream: bool = True, worker_ahead_s: float = 0.0) -> Made:
    """Token n leaves its worker n seconds after the call came, and takes another eighth a hop."""
    answer = WireAnswer()
    made = Made("r", Shape("live", stream=stream, hops=True), "/completions", {}, answer, BEGAN)
    if not stream:
        answer.usage = {"completion_tokens": count}
        answer.token_times.append(answer.started + 100.0)
        return made
    answer.head(200, {"content-type": "text/event-stream"}, answer.started)
    for number in range(1, count + 1):
        worker = number + worker_ahead_s
        hops = {"tokens": number, "worker": worker, "router": number + 0.125, "gateway": number + 0.25}
        event: dict[str, Any] = {"choices": [{"text": "x"}], "hops": hops}
        answer.body(f"data: {json.dumps(event)}\n\n".encode(), answer.started + CAME + number + 0.375)
    return made


STEPS = (step(3, 0.0, "prefill"), step(4, 0.375, "last_prefill"), step(5, 1.375), step(6, 1.4, choice="1"))


def test_every_place_is_told_in_seconds_since_the_client_began() -> None:
    first, second = hops_seen(streamed(2), timeline(*STEPS))
    assert (first.token, first.step, second.token, second.step) == (1, 4, 2, 5)
    times = (first.engine, first.worker, first.router, first.gateway, first.client)
    assert times == pytest.approx((1.125, 1.25, 1.375, 1.5, 1.625))
    assert second.engine == pytest.approx(2.125)


def test_a_workers_other_clock_is_corrected() -> None:
    ahead = 40.0
    first, _ = hops_seen(
        streamed(2, worker_ahead_s=ahead), timeline(*(step_ahead(each, ahead) for each in STEPS), ahead_s=ahead)
    )
    assert (first.engine, first.worker) == pytest.approx((1.125, 1.25))


def step_ahead(span: Span, ahead_s: float) -> Span:
    return replace(span, start_s=span.start_s + ahead_s)


def test_what_is_less_than_the_uncertainty_is_no_other_clock() -> None:
    first, _ = hops_seen(streamed(2), timeline(*STEPS, ahead_s=0.009, uncertainty_s=0.01))
    assert (first.engine, first.worker) == pytest.approx((1.125, 1.25))


def test_nothing_is_said_where_steps_are_missing_or_no_clock_was_read() -> None:
    assert hops_seen(streamed(2), timeline(*STEPS, missing=1)) == ()
    assert hops_seen(streamed(2), replace(timeline(*STEPS), clocks=())) == ()
    (line,) = hop_lines(())
    assert "not known" in line


def test_a_plain_answers_tokens_are_read_at_its_end_and_nobody_tells_of_the_way() -> None:
    hops = hops_seen(streamed(2, stream=False), timeline(*STEPS))
    assert [each.client for each in hops] == pytest.approx([100.0, 100.0])
    assert {each.worker for each in hops} == {None}
    lines = list(hop_lines(hops))
    assert lines[2].split() == ["1", "4", "1125.0", "–", "–", "–", "100000.0"]
    assert lines[-3].split() == ["each", "hop,", "p50", "–", "–", "–", "+97875.00"]
    assert lines[-1] == "the whole way: p50 97875.00 ms, p99 98875.00 ms"


def test_a_long_answer_shows_its_beginning_its_end_and_what_each_hop_took() -> None:
    count = 20
    spans = (step(1, 0.375, "last_prefill"), *(step(number, number - 0.625) for number in range(2, count + 1)))
    lines = list(hop_lines(hops_seen(streamed(count), timeline(*spans))))
    assert all(width(line) <= 51 for line in lines)
    assert len(lines) <= 13, "as many as there is room for on a small screen"
    shown = [line.split()[0] for line in lines if line.split() and line.split()[0].isdigit()]
    assert shown == ["1", "2", "3", "4", "19", "20"]
    assert "    … 14 tokens more" in lines
    head, hop = lines[1], lines[-2]
    assert hop.split() == ["each", "hop,", "p99", "+125.00", "+125.00", "+125.00", "+125.00"]
    assert [head.index(place) + len(place) for place in ("worker", "router", "gateway", "client")] == [
        end + 7 for end in range(len(hop)) if hop.startswith("+125.00", end)
    ]
    assert lines[-1] == "the whole way: p50 500.00 ms, p99 500.00 ms"
