from __future__ import annotations

import dataclasses
from typing import Any

from control_plane.contracts.call import RoutedCall
from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.wire.both_forms import (
    both_forms,
    read_json,
    read_protobuf,
    write_json,
    write_protobuf,
)
from control_plane.contracts.wire.convert import from_wire
from control_plane.contracts.wire.generate import generate_frame
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
    frame = pb.RouterFrame.FromString(generate_frame(9, call).SerializeToString())
    return from_wire(frame.generate, Generate)


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


def test_both_forms_of_a_call_say_the_same() -> None:
    for sampling in (Sampling(max_tokens=1), Sampling(max_tokens=9, ignore_eos=True), Sampling(**FULL)):
        for priority, salt, stream in ((0, "", False), (-2, "salt", True)):
            call = RoutedCall("r", "m", [1, 2, 3], sampling, stream, 12.5, 0.0, priority=priority, cache_salt=salt)
            heard = read_protobuf(write_protobuf(call))
            assert heard.prompt_token_ids == (1, 2, 3)
            assert read_json(write_json(call)) == heard


def test_json_leaves_out_what_protobuf_does() -> None:
    call = RoutedCall("r", "m", [300, 7], Sampling(max_tokens=4), False, 12.5, 0.0)
    assert write_json(call) == (
        b'{"generate":{"call":1,"request_id":"r","prompt_token_ids":[300,7],"sampling":{"max_tokens":4,"n":1},'
        b'"arrival_unix":12.5}}'
    )


def test_ids_are_two_bytes_where_json_has_their_digits_and_a_comma() -> None:
    def sizes(count: int) -> tuple[int, int]:
        call = RoutedCall("r", "m", [399] * count, Sampling(max_tokens=4), True, 12.5, 0.0)
        both = both_forms(call, 1)
        assert both.json.size == len(write_json(call))
        assert min(both.json.write_s, both.json.read_s, both.protobuf.write_s, both.protobuf.read_s) > 0
        return both.json.size, both.protobuf.size

    few, many = sizes(1000), sizes(2000)
    assert (many[0] - few[0], many[1] - few[1]) == (4000, 2000)
