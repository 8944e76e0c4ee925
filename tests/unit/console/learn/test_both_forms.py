from __future__ import annotations

from console.learn.both_forms import both_forms, read_json, write_json
from control_plane.contracts.call import RoutedCall
from control_plane.contracts.wire.generate import read_generate, write_generate
from control_plane.contracts.worker import Sampling
from tests.unit.contracts.test_generate import FULL


def test_both_forms_of_a_call_say_the_same() -> None:
    for sampling in (Sampling(max_tokens=1), Sampling(max_tokens=9, ignore_eos=True), Sampling(**FULL)):
        for priority, salt, stream in ((0, "", False), (-2, "salt", True)):
            call = RoutedCall("r", "m", [1, 2, 3], sampling, stream, 12.5, 0.0, priority=priority, cache_salt=salt)
            heard = read_generate(write_generate(1, call))
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
