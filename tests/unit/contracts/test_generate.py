from __future__ import annotations

import dataclasses
from typing import Any

from control_plane.contracts.call import RoutedCall
from control_plane.contracts.wire.generate import generate_frame, read_generate, write_generate
from control_plane.contracts.worker import Generate, Sampling

FULL: dict[str, Any] = {
    "max_tokens": 7,
    "n": 3,
    "temperature": 0.0,
    "top_p": 0.5,
    "top_k": 0,
    "min_p": 0.0,
    "min_tokens": 2,
    "stop": ("a", "b"),
    "stop_token_ids": (5, 6),
    "ignore_eos": True,
    "seed": -4,
    "presence_penalty": 0.0,
    "frequency_penalty": 1.5,
    "repetition_penalty": 1.25,
    "logit_bias": {3: -100.0, 0: 2.5},
    "logprobs": 0,
    "json_object": None,
    "json_schema": None,
    "regex": None,
}


def sent(sampling: Sampling) -> Generate:
    call = RoutedCall("r", "m", [1, 2, 3], sampling, True, 12.5, 0.0, priority=-2, cache_salt="salt")
    return read_generate(write_generate(9, call))


def test_nothing_of_a_call_is_lost_on_the_way() -> None:
    assert set(FULL) == {field.name for field in dataclasses.fields(Sampling)}, "a new field needs a place in the frame"
    sampling = Sampling(**FULL)
    assert sent(sampling) == Generate(9, "r", (1, 2, 3), sampling, -2, "salt", True, 12.5)


def test_what_is_not_set_stays_unset_and_zero_is_a_value() -> None:
    assert sent(Sampling(max_tokens=1)).sampling == Sampling(max_tokens=1)
    assert sent(Sampling(max_tokens=1, seed=0, temperature=0.0)).sampling.seed == 0


def test_each_structured_form_arrives() -> None:
    for name, value in (("json_object", True), ("json_schema", "{}"), ("regex", "a+")):
        sampling = Sampling(max_tokens=1, **{name: value})  # type: ignore[arg-type]
        assert sent(sampling).sampling == sampling


def test_log_probabilities_come_step_by_step_also_for_a_plain_call() -> None:
    for logprobs, stream in ((None, False), (0, True), (5, True)):
        call = RoutedCall("r", "m", [1], Sampling(max_tokens=1, logprobs=logprobs), False, 12.5, 0.0)
        assert generate_frame(9, call).generate.stream is stream
