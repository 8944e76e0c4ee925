from __future__ import annotations

import json
from typing import Any

import pytest

from control_plane.contracts.errors import InvalidRequest
from workers.engine.modelless.script import PLAIN, Script, find_script


def test_a_text_without_a_script_is_plain() -> None:
    assert find_script('tell me about {"scripts": 1}') is PLAIN


def test_the_last_script_counts() -> None:
    text = 'user {"script": {"tokens": 1}} assistant ok user { "script" : {"tokens": 2, "delay_s": 0.5}} thanks'
    assert find_script(text) == Script(tokens=2, delay_s=0.5)


def test_every_key_is_read() -> None:
    values: dict[str, Any] = {
        "tokens": 3,
        "text": "a",
        "pieces": ["a", "b"],
        "bytes": ["f09f"],
        "delay_s": 1,
        "prefill_s": 0.5,
        "stall_s": 2,
        "stall_after": 1,
        "die_after": 0,
        "engine_dies_after": 4,
        "finish": "length",
        "refuse": "overloaded",
        "mark": "m",
    }
    assert find_script(json.dumps({"script": values})) == Script(**values)


@pytest.mark.parametrize(
    "script",
    [
        '{"script": {"tokns": 1}}',
        '{"script": {"tokens": "1"}}',
        '{"script": {"tokens": true}}',
        '{"script": {"tokens": -1}}',
        '{"script": {"pieces": [1]}}',
        '{"script": [1]}',
        '{"script": {"tokens": 1}',
    ],
)
def test_a_wrong_script_is_an_invalid_request(script: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        find_script(script)
    assert caught.value.param == "script"
