"""Stages and steps of one request on one clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from control_plane.contracts.fleet import RequestPhase, RequestView, Stage
from control_plane.contracts.step import EngineStep, StepKind, StepRow
from control_plane.contracts.timeline import ClockSkew, Span, Timeline
from control_plane.fleet.timeline import join

ARRIVAL = 1000.0
STAGES = (
    Stage("auth", 0.0, 0.001),
    Stage("tokenise", 0.001, 0.002),
    Stage("queue", 0.003, 0.010),
    Stage("route", 0.013, 0.001),
    Stage("worker_queue", 0.014, 0.006),
    Stage("prefill", 0.020, 0.100),
    Stage("decode", 0.120, 0.180),
)
REQUEST = RequestView(
    id="req-1",
    gateway_id="g1",
    model="m",
    phase=RequestPhase.FINISHED,
    worker_id="w1",
    stages=STAGES,
    arrival_unix=ARRIVAL,
    prompt_tokens=96,
    cached_tokens=32,
    output_tokens=3,
    duration_s=0.310,
)


def row(kind: StepKind, request_id: str = "req-1", **fields: object) -> StepRow:
    values: dict[str, object] = {"tokens": 1, "computed": 96, "prompt_tokens": 96, **fields}
    return StepRow(request_id, kind, **values)  # type: ignore[arg-type]


def step(number: int, start_s: float, *rows: StepRow, preempted: tuple[str, ...] = ()) -> EngineStep:
    tokens = sum(row.tokens for row in rows)
    return EngineStep(number, ARRIVAL + start_s, 0.001, 0.049, tokens, rows, preempted=preempted)


STEPS = [
    step(7, 0.020, row(StepKind.PREFILL, tokens=32, computed=32, joined=True, cached_tokens=32)),
    step(8, 0.070, row(StepKind.LAST_PREFILL, tokens=32, computed=64)),
    step(9, 0.120, row(StepKind.DECODE), row(StepKind.PREFILL, "other", tokens=480)),
    step(10, 0.170, row(StepKind.DECODE, computed=97)),
]


def of(spans: tuple[Span, ...], name: str) -> list[Span]:
    return [span for span in spans if span.name == name]


def test_each_stage_has_its_process_and_each_step_its_stage() -> None:
    timeline = join(REQUEST, STEPS)
    assert [(span.name, span.process) for span in timeline.spans if not span.parent] == [
        ("auth", "gateway/g1"),
        ("tokenise", "gateway/g1"),
        ("queue", "router/g1"),
        ("route", "router/g1"),
        ("worker_queue", "worker/w1"),
        ("prefill", "worker/w1"),
        ("decode", "worker/w1"),
        ("reply", "gateway/g1"),
    ]
    steps = of(timeline.spans, "step")
    assert [span.parent for span in steps] == ["prefill", "prefill", "decode", "decode"]
    assert [span.start_s for span in steps] == pytest.approx([0.020, 0.070, 0.120, 0.170])
    assert steps[0].attributes["cached_tokens"] == "32"
    assert steps[2].attributes["prefill_beside"] == "other (480 tokens)"
    assert timeline.missing_steps == 0


def test_the_batch_is_the_whole_one_where_only_the_requests_rows_are_told() -> None:
    narrow = replace(STEPS[3], batch=7)
    first, last = of(join(REQUEST, [STEPS[2], narrow]).spans, "step")
    assert (first.attributes["batch"], last.attributes["batch"]) == ("2", "7")


def test_the_last_byte_comes_after_the_last_token() -> None:
    (reply,) = of(join(REQUEST, STEPS).spans, "reply")
    assert (reply.start_s, reply.duration_s) == pytest.approx((0.300, 0.010))


def test_another_clock_is_corrected() -> None:
    ahead = [EngineStep(s.step, s.started_unix + 42.0, s.schedule_s, s.execute_s, s.tokens, s.rows) for s in STEPS]
    clock = ClockSkew("worker/w1", 42.0, 0.001)
    timeline = join(REQUEST, ahead, clock)
    assert [span.start_s for span in of(timeline.spans, "step")] == pytest.approx([0.020, 0.070, 0.120, 0.170])
    assert timeline.clocks == (clock,)


def test_a_preemption_lasts_until_the_request_is_taken_up_again() -> None:
    steps = [
        *STEPS[:3],
        step(10, 0.170, row(StepKind.DECODE, "other"), preempted=("req-1",)),
        step(11, 0.220, row(StepKind.DECODE, "other")),
        step(12, 0.270, row(StepKind.LAST_PREFILL, tokens=97, resumed=True)),
    ]
    (pause,) = of(join(REQUEST, steps).spans, "preempted")
    assert (pause.start_s, pause.duration_s, pause.parent) == (pytest.approx(0.170), pytest.approx(0.100), "decode")


def test_steps_that_are_no_longer_kept_are_counted() -> None:
    assert join(REQUEST, STEPS[2:]).missing_steps == 1
    assert join(REQUEST, []).missing_steps == 3


def at_the_worker(timeline: Timeline) -> list[tuple[str, float, float]]:
    return [
        (span.name, round(span.start_s, 6), round(span.duration_s, 6))
        for span in timeline.spans
        if not span.parent and span.process == "worker/w1"
    ]


def test_steps_tell_what_the_router_does_not_know_of_a_call_at_its_worker() -> None:
    before = STAGES[:4]
    streaming = replace(REQUEST, stages=(*before, Stage("first_token", 0.014, 0.108)), phase=RequestPhase.DECODING)
    told = [("worker_queue", 0.014, 0.006), ("prefill", 0.020, 0.102)]
    assert at_the_worker(join(streaming, STEPS)) == told
    waited = replace(REQUEST, stages=(*before, Stage("at_worker", 0.014, 0.086)), phase=RequestPhase.CANCELLED)
    assert at_the_worker(join(waited, STEPS[:1])) == [("worker_queue", 0.014, 0.006), ("prefill", 0.020, 0.080)]
    plain = replace(REQUEST, stages=(*before, Stage("at_worker", 0.014, 0.200)), phase=RequestPhase.CANCELLED)
    assert at_the_worker(join(plain, STEPS)) == [
        ("worker_queue", 0.014, 0.006),
        ("prefill", 0.020, 0.100),
        ("decode", 0.120, 0.094),
    ]


@pytest.mark.parametrize("steps", [[], STEPS[2:], [replace(STEPS[0], started_unix=ARRIVAL + 9)]])
def test_without_the_steps_of_its_beginning_a_stage_stays_what_the_router_saw(steps: list[EngineStep]) -> None:
    waited = replace(REQUEST, stages=(*STAGES[:4], Stage("at_worker", 0.014, 0.286)), phase=RequestPhase.FAILED)
    assert at_the_worker(join(waited, steps)) == [("at_worker", 0.014, 0.286)]


WENT_ON = replace(
    REQUEST,
    worker_id="w2",
    retries=1,
    stages=(
        *STAGES[:2],
        Stage("queue", 0.003, 0.001),
        Stage("route", 0.004, 0.001, "w1"),
        Stage("first_token", 0.005, 0.003, "w1"),
        Stage("decode", 0.008, 0.002, "w1"),
        Stage("queue", 0.010, 0.003),
        *STAGES[3:],
    ),
)
"""It lost its worker w1 and went on at w2, which knows the steps."""


def test_steps_belong_to_the_attempt_that_they_were_made_in() -> None:
    timeline = join(WENT_ON, STEPS)
    stages = [(span.name, span.attempt, span.process) for span in timeline.spans if not span.parent]
    assert stages == [
        ("auth", 0, "gateway/g1"),
        ("tokenise", 0, "gateway/g1"),
        ("queue", 1, "router/g1"),
        ("route", 1, "router/g1"),
        ("first_token", 1, "worker/w1"),
        ("decode", 1, "worker/w1"),
        ("queue", 2, "router/g1"),
        ("route", 2, "router/g1"),
        ("worker_queue", 2, "worker/w2"),
        ("prefill", 2, "worker/w2"),
        ("decode", 2, "worker/w2"),
        ("reply", 0, "gateway/g1"),
    ]
    assert [span.attempt for span in of(timeline.spans, "step")] == [2] * 4
    first, second = of(timeline.spans, "decode")
    assert not any(span.of(first) for span in timeline.spans)
    assert len([span for span in timeline.spans if span.of(second)]) == 2
    assert [span.attributes["worker"] for span in of(timeline.spans, "route")] == ["w1", "w2"]


def test_a_request_that_comes_back_to_its_worker_has_the_steps_of_both_attempts_there() -> None:
    back = replace(WENT_ON, stages=tuple(replace(s, worker_id=s.worker_id and "w2") for s in WENT_ON.stages))
    early = step(3, 0.005, row(StepKind.LAST_PREFILL, tokens=96, joined=True))
    timeline = join(back, [early, *STEPS])
    assert [span.attempt for span in of(timeline.spans, "step")] == [1, 2, 2, 2, 2]


def test_what_the_steps_say_is_not_told_of_an_attempt_before() -> None:
    """The worker's own account of the last attempt leaves nothing to tell; the router's of the one before stays."""
    early = step(3, 0.006, row(StepKind.LAST_PREFILL, tokens=96, joined=True))
    names = [span.name for span in join(WENT_ON, [early]).spans if span.attempt == 1]
    assert names == ["queue", "route", "first_token", "decode"]
