from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.errors import DropReason, InvalidRequest
from control_plane.contracts.worker import Generate, ModelInfo, Sampling
from workers.validation import check

MODEL = ModelInfo("m", vocab_size=100, max_context=16)


def call(prompt: list[int] | None = None, request_id: str = "r", **sampling: Any) -> Generate:
    return Generate(1, request_id, [1, 2, 3] if prompt is None else prompt, Sampling(**{"max_tokens": 4, **sampling}))


@pytest.mark.parametrize(
    ("param", "generate"),
    [
        ("request_id", call(request_id="")),
        ("prompt", call([])),
        ("prompt", call([100])),
        ("max_tokens", call(max_tokens=0)),
        ("min_tokens", call(min_tokens=5)),
        ("n", call(n=0)),
        ("n", call(n=10**6)),
        ("temperature", call(temperature=math.nan)),
        ("temperature", call(temperature=math.inf)),
        ("temperature", call(temperature=-0.1)),
        ("top_p", call(top_p=0.0)),
        ("top_p", call(top_p=1.1)),
        ("top_k", call(top_k=-2)),
        ("min_p", call(min_p=-0.1)),
        ("presence_penalty", call(presence_penalty=2.1)),
        ("frequency_penalty", call(frequency_penalty=-2.1)),
        ("repetition_penalty", call(repetition_penalty=0.0)),
        ("logprobs", call(logprobs=21)),
        ("seed", call(seed=2**63)),
        ("stop", call(stop=("",))),
        ("stop", call(stop=("x",) * 17)),
        ("logit_bias", call(logit_bias={100: 1.0})),
        ("logit_bias", call(logit_bias={1: math.nan})),
        ("stop_token_ids", call(stop_token_ids=(100,))),
        ("response_format", call(json_schema="{")),
        ("response_format", call(json_schema="1")),
    ],
)
def test_what_no_engine_could_run_is_refused_by_name(param: str, generate: Generate) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(generate, MODEL)
    assert caught.value.param == param


@pytest.mark.parametrize("length", [16, 17])
def test_a_prompt_without_room_for_an_answer_is_too_long(length: int) -> None:
    with pytest.raises(InvalidRequest, match=f"16 tokens and the prompt has {length}") as caught:
        check(call([1] * length), MODEL)
    assert caught.value.reason is DropReason.CONTEXT_LENGTH_EXCEEDED


@pytest.mark.parametrize(
    "generate",
    [
        call(),
        call([1] * 15),
        call(temperature=0.0, top_p=1.0, top_k=-1, min_p=0.0, logprobs=0, seed=-(2**63)),
        call(temperature=2.0, top_k=0, n=2, stop=("a", "b"), stop_token_ids=(99,), logit_bias={99: -100.0}),
        call(max_tokens=10**9),
        call(json_schema='{"type": "object"}'),
    ],
)
def test_what_can_be_run_passes(generate: Generate) -> None:
    check(generate, MODEL)


@given(st.floats(), st.sampled_from(["temperature", "top_p", "min_p", "presence_penalty", "repetition_penalty"]))
def test_a_number_that_passes_is_finite(value: float, name: str) -> None:
    with contextlib.suppress(InvalidRequest):
        check(call(**{name: value}), MODEL)
        assert math.isfinite(value)
