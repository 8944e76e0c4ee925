from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.contracts.errors import InvalidRequest
from control_plane.gateway.schema.json_text import read_object

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, max_size=5), st.booleans())
def test_any_object_is_read_as_json_reads_it(value: dict[str, object], ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    try:
        body = text.encode()
    except UnicodeEncodeError:
        return
    assert read_object(body) == json.loads(body)


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"x"', b"true"])
def test_what_is_no_object(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="must be a JSON object") as caught:
        read_object(body)
    assert caught.value.code == "invalid_type"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "Expecting value"),
        (b"{", "line 1 column 2"),
        (b'{"a":1} x', "Extra data"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b'{"a":-Infinity}', "-Infinity is not JSON"),
        (b'{"a":"\xff"}', "not UTF-8"),
        ("{}".encode("utf-16"), "not UTF-8"),
        ("{}".encode("utf-16-le"), "Expecting"),
        ("{}".encode("utf-32"), "not UTF-8"),
        (b"\xef\xbb\xbf{}", "Expecting value|BOM"),
        (b'{"a":"\x00"}', "control character"),
        (b'{"a":1}\x00', "Extra data"),
        (b'{"a":1}{}', "Extra data"),
        (b'{"a":01}', "Expecting"),
        (b'{"a":+1}', "Expecting"),
        (b'{"a":1.}', "Expecting"),
        (b"{'a':1}", "Expecting"),
        (b'{"a":[' + b"0," * 40_000 + b"NaN]}", "NaN is not JSON"),
        (b'{"a":[' + b"0," * 40_000 + b"00]}", "Expecting"),
        (b'{"a":[' + b"0," * 40_000 + b"1" * 5000 + b"]}", "too many digits"),
        (b'{"a":[' + rb'"\ud83d\ude00",' * 40_000 + rb'"\ude00"]}', "lone surrogate"),
        (b'{"a":"' + rb"\t" * 140_000 + rb"\x" + b'"}', "Invalid|escape"),
        (b'{"a":"\xed\xa0\x80"}', "not UTF-8"),
        (rb'{"a":"\ud800"}', "lone surrogate"),
        (rb'{"\uDFFF":1}', "lone surrogate"),
        (rb'{"a":["\ud83dx"]}', "lone surrogate"),
        (b'{"a":' + b"1" * 5000 + b"}", "too many digits"),
        (b'{"a":' + b"[" * 20_000, "nested too deeply"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "nested too deeply"),
        (b'{"a":[' + b"0," * 300_000 + b"0]}", "too many values"),
        (b'{"a":[' + b"[]," * 40_000 + b"0]}", "too many values"),
        (b'{"a":[' + b'"",' * 300_000 + b"0]}", "too many values"),
    ],
    ids=lambda value: value[:16].decode("latin-1") if isinstance(value, bytes) else value,
)
def test_what_is_no_json(body: bytes, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as caught:
        read_object(body)
    assert caught.value.code == "invalid_json"


def test_pairs_of_surrogates_are_characters() -> None:
    assert read_object(rb'{"a":"\ud83d\ude00"}') == {"a": "😀"}


def test_depth_up_to_the_limit_is_read() -> None:
    assert read_object(b'{"a":' * 64 + b"1" + b"}" * 64)


def test_long_text_full_of_brackets_and_commas_is_text() -> None:
    text = '{"a": [1, 2], "b\\"": [[]]},' * 20_000
    assert read_object(json.dumps({"a": text}).encode()) == {"a": text}


def test_a_name_that_comes_twice_counts_as_it_does_last() -> None:
    assert read_object(b'{"a":1,"a":2}') == {"a": 2}


def test_errors_do_not_repeat_the_body() -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_object(b'{"secret-text": ]')
    assert "secret" not in caught.value.message


def test_numbers_are_what_they_are() -> None:
    read = read_object(b'{"a":-0,"b":-0.0,"c":1e400,"d":1000000000000000000000000000000}')
    assert repr(read) == "{'a': 0, 'b': -0.0, 'c': inf, 'd': 1000000000000000000000000000000}"


@given(st.dictionaries(st.text(), JSON, max_size=5), st.sampled_from([None, [0] * 40_000, "\t" * 140_000]))
@settings(max_examples=8)
def test_large_bodies_are_read_alike(value: dict[str, object], much: object) -> None:
    body = json.dumps(value | {"much": much})
    assert read_object(body.encode()) == json.loads(body)
    twice = f'{{"twice": 1, "twice": {body}}}'
    assert read_object(twice.encode()) == json.loads(twice)
