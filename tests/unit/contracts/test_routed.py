"""What crosses between a gateway and a router arrives as it was sent."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.admission import Service
from control_plane.contracts.call import RoutedCall
from control_plane.contracts.errors import DropReason, InferDeckError, from_reason
from control_plane.contracts.fleet import ModelView, Stage
from control_plane.contracts.model_choice import ModelChoice, Score, ScorePart
from control_plane.contracts.v1 import router_pb2
from control_plane.contracts.wire.routed import (
    catalogue_to_wire,
    models_from_wire,
    refusal_from_wire,
    refusal_to_wire,
    submit_from_wire,
    submit_to_wire,
)
from control_plane.contracts.worker import Sampling

SAMPLING = Sampling(
    max_tokens=9,
    temperature=0.5,
    seed=-3,
    stop=("a", "b"),
    stop_token_ids=(1, 2),
    logit_bias={5: -1.5},
    logprobs=0,
    json_schema="{}",
)
CALL = RoutedCall(
    request_id="req-1",
    model="tiny",
    prompt_token_ids=(1, 2, 70_000),
    sampling=SAMPLING,
    stream=True,
    arrival_unix=1000.5,
    arrival_mono=50.0,
    priority=-7,
    queue_timeout_s=0.0,
    cache_salt="acme",
    key_id="key-1",
    api="completions",
    stages=(Stage("auth", 0.0, 0.25),),
    traceparent="00-abc",
    resumed=2,
    gateway_id="g2",
    attempts=1,
    ttft_s=0.75,
    session="conv-1",
    choice=ModelChoice(
        "auto", "tiny", "short", "large", 0.4, Score(0.5, (ScorePart("length", 0.5, 1.0, "9 characters"),))
    ),
    service=Service("free", 2, "queue", "refuse", 0.25),
    flow="acme",
    hops=True,
)


def across(call: RoutedCall, sent: float = 53.0, received: float = 900.0) -> RoutedCall:
    wire = router_pb2.SubmitCall.FromString(submit_to_wire(4, call, sent).SerializeToString())
    assert wire.call == 4
    return submit_from_wire(wire, "g2", wire.routed.request_id, received)


def test_every_field_of_a_call_crosses_and_its_age_counts_by_the_other_clock() -> None:
    assert all(getattr(CALL, field.name) != field.default for field in dataclasses.fields(CALL)), (
        "a field of its default value would prove nothing"
    )
    assert across(CALL) == dataclasses.replace(CALL, arrival_mono=900.0 - 3.0)


def test_without_how_to_sample_there_is_no_call() -> None:
    wire = submit_to_wire(4, CALL, 53.0)
    wire.routed.ClearField("sampling")
    with pytest.raises(ValueError, match="RoutedCall without sampling"):
        submit_from_wire(wire, "g2", "r", 900.0)


def test_no_queue_timeout_is_not_one_of_zero() -> None:
    assert across(dataclasses.replace(CALL, queue_timeout_s=None)).queue_timeout_s is None


@given(
    reason=st.sampled_from(list(DropReason)),
    message=st.text(),
    param=st.none() | st.text(min_size=1),
    retry=st.none() | st.booleans(),
    retry_after_s=st.none() | st.floats(0, 1e6),
    hint=st.text(),
)
def test_an_error_crosses_whole(
    reason: DropReason,
    message: str,
    param: str | None,
    retry: bool | None,
    retry_after_s: float | None,
    hint: str,
) -> None:
    error = from_reason(reason, message, param=param, hint=hint)
    error.retry, error.retry_after_s = retry, retry_after_s
    heard = refusal_from_wire(refusal_to_wire(1, error))
    assert type(heard) is type(error)
    assert vars(heard) == vars(error)


def test_a_word_of_its_own_for_the_error_crosses() -> None:
    error = InferDeckError("no", code="context_length_exceeded")
    assert refusal_from_wire(refusal_to_wire(1, error)).code == "context_length_exceeded"


@pytest.mark.parametrize("joined", [True, False])
def test_models_cross(joined: bool) -> None:
    models = (ModelView("a", "pool", "source", 128, 2, "sim"), ModelView("b", "other"))
    wire = catalogue_to_wire("r1", models, joined=joined, ready=True, draining=False, in_flight=3)
    assert models_from_wire(wire) == models
    assert (wire.joined, wire.in_flight) == (joined, 3)
