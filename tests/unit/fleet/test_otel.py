"""Timelines as OpenTelemetry's spans."""

from __future__ import annotations

import dataclasses

import pytest

from control_plane.contracts.fleet import RequestPhase
from control_plane.fleet.otel import spans_of
from control_plane.fleet.timeline import join
from tests.unit.fleet.test_timeline import ARRIVAL, REQUEST, STEPS, WENT_ON

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_the_tree_is_the_request_its_stages_and_their_steps() -> None:
    spans = spans_of(join(REQUEST, STEPS))
    names = {span.get_span_context().span_id: span.name for span in spans}
    parents = [(span.name, names.get(span.parent.span_id) if span.parent else None) for span in spans]
    assert parents[0] == ("text_completion m", None)
    assert parents[1:8] == [
        (name, "text_completion m")
        for name in ("auth", "tokenise", "queue", "route", "worker_queue", "prefill", "decode")
    ]
    assert parents[8:12] == [("step", "prefill")] * 2 + [("step", "decode")] * 2
    assert len(names) == len(spans), "every span has an id of its own"
    assert len({span.get_span_context().trace_id for span in spans}) == 1


def test_times_processes_and_figures_are_the_timeline_s() -> None:
    spans = spans_of(join(REQUEST, STEPS))
    root, step = spans[0], next(span for span in spans if span.name == "step")
    assert root.attributes is not None
    assert step.attributes is not None
    assert root.attributes["gen_ai.usage.output_tokens"] == 3
    assert root.end_time is not None
    assert root.start_time is not None
    assert (root.end_time - root.start_time) / 1e9 == pytest.approx(REQUEST.duration_s, abs=1e-6)
    assert step.start_time is not None
    assert step.start_time / 1e9 == pytest.approx(ARRIVAL + 0.020, abs=1e-6)
    assert step.resource.attributes["service.name"] == "inferdeck-engine"
    assert step.attributes["inferdeck.cached_tokens"] == 32


def test_a_caller_s_trace_goes_on() -> None:
    request = dataclasses.replace(REQUEST, traceparent=f"00-{TRACE}-{PARENT}-01")
    root = spans_of(join(request, STEPS))[0]
    assert root.parent is not None
    assert (f"{root.parent.trace_id:032x}", f"{root.parent.span_id:016x}") == (TRACE, PARENT)
    assert root.get_span_context().trace_id == root.parent.trace_id


@pytest.mark.parametrize("sent", ["", "nonsense", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01"])
def test_an_invalid_one_is_not_followed(sent: str) -> None:
    assert spans_of(join(dataclasses.replace(REQUEST, traceparent=sent), STEPS))[0].parent is None


def test_the_same_request_told_twice_has_the_same_ids() -> None:
    first, second = (spans_of(join(REQUEST, STEPS)) for _ in range(2))
    assert [s.get_span_context() for s in first] == [s.get_span_context() for s in second]


def test_a_failure_is_an_error() -> None:
    failed = dataclasses.replace(REQUEST, phase=RequestPhase.FAILED, reason="worker_lost")
    assert spans_of(join(failed, []))[0].status.description == "worker_lost"


def test_a_request_that_went_on_elsewhere_has_a_span_for_each_stage_of_each_attempt() -> None:
    spans = spans_of(join(WENT_ON, STEPS))
    ids = {span.get_span_context().span_id: span for span in spans}
    assert len(ids) == len(spans), "every span has an id of its own"
    parents = [ids[span.parent.span_id] for span in spans if span.name == "step" and span.parent]
    assert [(p.name, (p.attributes or {})["inferdeck.attempt"]) for p in parents] == [
        ("prefill", 2),
        ("prefill", 2),
        ("decode", 2),
        ("decode", 2),
    ]
