from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.tui.command import COMMANDS, BadCommand, Command, completions, parse
from tests.snapshots.memory import snapshot


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("workers", Command("workers")),
        (":requests", Command("requests")),
        ("  rq ", Command("requests")),
        ("req", None),
        ("requests x", None),
        ("ev", Command("events")),
        ("models", Command("pools")),
        ("logs", Command("logs")),
        ("logs worker/smollm2-1", Command("logs", "worker/smollm2-1")),
        ("worker smollm2-1", Command("worker", "smollm2-1")),
        ("worker", None),
        ("drain a b", Command("drain", "a b")),
        ("scale smollm2=3", Command("scale", "smollm2", 3)),
        ("scale smollm2 = 0", Command("scale", "smollm2", 0)),
        ("scale a=b=2", None),
        ("scale smollm2", None),
        ("scale smollm2=-1", None),
        ("scale =2", None),
        ("q", Command("quit")),
        ("q!", Command("quit")),
        ("ca x", Command("cancel", "x")),
        ("c x", None),
        ("inferdeck cancel x", Command("cancel", "x")),
        (": inferdeck cordon w-1", Command("cordon", "w-1")),
        ("nonsense", None),
        ("", None),
        (":", None),
    ],
)
def test_parse(line: str, meaning: Command | None) -> None:
    if meaning is None:
        with pytest.raises(BadCommand):
            parse(line)
    else:
        assert parse(line) == meaning


@pytest.mark.parametrize(("line", "way_out"), [("policy set a=1", "inferdeck policy set"), ("keys x", "inferdeck key")])
def test_what_only_shows_names_the_command_that_changes(line: str, way_out: str) -> None:
    with pytest.raises(BadCommand, match=f"in a terminal, {way_out} "):
        parse(line)


@given(st.text(max_size=40))
def test_any_line_is_a_command_or_a_bad_one(line: str) -> None:
    with suppress(BadCommand):
        assert parse(line).verb in COMMANDS


def test_completions() -> None:
    now = snapshot(workers=2, requests=2)
    assert completions("wor", now) == ["workers", "worker "]
    assert completions("scale ", now) == ["scale smollm2=2"]
    assert completions("drain sm", now) == ["drain smollm2-1", "drain smollm2-2"]
    assert completions("logs ", now) == [
        "logs worker/smollm2-1",
        "logs worker/smollm2-2",
        "logs gateway/g1",
        "logs control-plane",
    ]
    assert completions("cancel ", now) == ["cancel req-1388", "cancel req-1389"]
    assert "request req-4fa" in completions("request ", now)
    assert completions("drain ", None) == []
    assert completions("quit ", now) == []


@given(st.text(max_size=20))
def test_completions_continue_what_was_typed(line: str) -> None:
    now = snapshot(workers=2, requests=2)
    for candidate in completions(line, now):
        assert candidate.replace(" ", "").startswith(line.replace(" ", "").lstrip()) or candidate.startswith(
            line.lstrip()
        )
