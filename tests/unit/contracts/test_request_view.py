from __future__ import annotations

from dataclasses import fields

from control_plane.contracts.fleet import RequestPhase, RequestView, Stage
from control_plane.contracts.hold import Hold
from control_plane.contracts.model_choice import ModelChoice
from control_plane.contracts.wire.convert import from_wire
from control_plane.contracts.wire.request_view import request_to_wire

WHOLE = RequestView(
    id="r",
    gateway_id="g1",
    model="m",
    phase=RequestPhase.QUEUED,
    worker_id="w-1",
    key_id="k",
    reason="because",
    stream=True,
    arrival_unix=1.5,
    prompt_tokens=2,
    cached_tokens=3,
    output_tokens=4,
    max_tokens=5,
    ttft_s=0.25,
    itl_p50_s=0.5,
    duration_s=2.5,
    retries=1,
    stages=(Stage("queue", 0.5, 1.0), Stage("route", 1.5, 0.25, "w-0")),
    api="chat",
    traceparent="00-a-b-01",
    predicted_cached_tokens=0,
    router_id="r1",
    choice=ModelChoice(asked="auto", model="m", reason="score"),
    worker_s=0.75,
    cost=0.125,
    tier="paid",
    preemptions=2,
    holds=(
        Hold("no_worker", 0.25, 0.25, over=True),
        Hold("busy", 0.5, 1.0, over=True, tier="paid", band="busy", saturation=0.82, position=1, queued=3),
    ),
)


def test_every_field_of_a_request_reaches_the_fleet() -> None:
    empty = RequestView("", "", "", RequestPhase.UNSPECIFIED)
    same = [field.name for field in fields(RequestView) if getattr(WHOLE, field.name) == getattr(empty, field.name)]
    assert same == [], "a field that is not set here is not tested"
    assert from_wire(request_to_wire(WHOLE), RequestView) == WHOLE
