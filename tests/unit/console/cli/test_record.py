"""``record`` and ``replay`` on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from console.record.kinds import Record
from tests.unit.console.conftest import Command
from tests.unit.console.fake_operator import FakeOperator
from tests.unit.console.record.files import write


@pytest.fixture
def recorded(operator: FakeOperator, inferdeck: Command, tmp_path: Path) -> Path:
    path = tmp_path / "a.deck"
    ran = inferdeck("record", str(path), "--duration", "300ms", "--no-steps")
    assert (ran.code, ran.out) == (0, "")
    assert "recording" in ran.err
    assert re.search(r"[1-9] snapshots?, 0 steps", ran.err)
    return path


def test_a_recording_as_json_lines(recorded: Path, inferdeck: Command) -> None:
    ran = inferdeck("replay", str(recorded), "-o", "json")
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert (ran.code, ran.err) == (0, "")
    assert lines[0]["kind"] == "session"
    assert {line["kind"] for line in lines} >= {"session", "snapshot", "end"}
    taken = next(line["value"] for line in lines if line["kind"] == "snapshot")
    assert [worker["id"] for worker in taken["workers"]] == ["smollm2-1", "smollm2-2"]
    assert "req-0" in [request["id"] for request in taken["requests"]]  # it has ended
    assert lines[-1]["value"] == {"reason": "the time was over"}


def test_a_recording_as_lines_for_people_yaml_and_names(recorded: Path, inferdeck: Command) -> None:
    printed = inferdeck("replay", str(recorded), "--print").out
    assert "smollm2-1=ready" in printed
    names = inferdeck("replay", str(recorded), "-o", "name").out.split()
    assert len(yaml.safe_load(inferdeck("replay", str(recorded), "-o", "yaml").out)) == len(names)
    assert names[0] == "session"


def test_info(recorded: Path, inferdeck: Command) -> None:
    ran = inferdeck("replay", str(recorded), "--info")
    assert ran.code == 0
    assert "workers   smollm2-1, smollm2-2" in ran.out
    assert "the last one ended: the time was over" in ran.out
    data = json.loads(inferdeck("replay", str(recorded), "--info", "-o", "json").out)
    assert data["kinds"]["snapshot"] == 1
    assert (data["format"], data["damages"], data["unread"]) == ("1.0", [], 0)


def test_on_the_console_it_needs_a_terminal(recorded: Path, inferdeck: Command) -> None:
    ran = inferdeck("replay", str(recorded))
    assert (ran.code, ran.out) == (2, "")
    assert "needs a terminal" in ran.err


def test_damage_is_told(recorded: Path, inferdeck: Command) -> None:
    whole = recorded.read_bytes()
    recorded.write_bytes(whole[:-3])
    info = inferdeck("replay", str(recorded), "--info")
    assert "damage    the last frame is not whole" in info.out
    assert "the last one says no end" in info.out
    assert "the last frame is not whole" in inferdeck("replay", str(recorded), "-o", "json").err
    for words in (["--info"], ["--info", "-o", "json"], ["--print"], ["-o", "json"]):
        assert inferdeck("replay", str(recorded), *words).code == 5


def test_recording_goes_on_and_begins_anew(recorded: Path, inferdeck: Command) -> None:
    again = inferdeck("record", str(recorded), "--duration", "200ms", "--no-steps")
    assert "on into" in again.err
    assert json.loads(inferdeck("replay", str(recorded), "--info", "-o", "json").out)["kinds"]["session"] == 2
    inferdeck("record", str(recorded), "--duration", "200ms", "--no-steps", "--force")
    assert json.loads(inferdeck("replay", str(recorded), "--info", "-o", "json").out)["kinds"]["session"] == 1


def test_a_torn_end_is_cut_off_and_told(recorded: Path, inferdeck: Command) -> None:
    recorded.write_bytes(recorded.read_bytes()[:-3])
    again = inferdeck("record", str(recorded), "--duration", "200ms", "--no-steps")
    assert "were not whole, and are cut off" in again.err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("replay", "{tmp}/none.deck"), 2, "none.deck: No such file or directory"),
        (("replay", "{tmp}/none.deck", "--info"), 2, "cannot read"),
        (("replay", "{tmp}/text", "-o", "json"), 2, "is not a recording"),
        (("record", "{tmp}/text"), 2, "--force writes over it"),
        (("record", "{tmp}/none/a.deck"), 1, "No such file"),
        (("record", "{tmp}/a.deck", "--duration", "soon"), 2, "--duration"),
    ],
)
def test_what_is_wrong_is_told(
    operator: FakeOperator, inferdeck: Command, tmp_path: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    (tmp_path / "text").write_text("not a recording at all, but long enough to be one\n")
    ran = inferdeck(*(word.format(tmp=tmp_path) for word in words))
    assert (ran.code, ran.out) == (code, "")
    assert told in ran.err


def test_without_a_platform_nothing_is_written(inferdeck: Command, tmp_path: Path) -> None:
    ran = inferdeck("record", str(tmp_path / "a.deck"))
    assert ran.code == 6
    assert not (tmp_path / "a.deck").exists()


def test_records_that_say_nothing_are_counted(inferdeck: Command, tmp_path: Path) -> None:
    path = tmp_path / "a.deck"
    write(path, [[Record(2, 1.0, b"\xff\xff"), Record(3, 1.0, b"x"), Record(77, 2.0, b"of a newer version")]])
    ran = inferdeck("replay", str(path), "--info")
    assert "unread    2 records say nothing to this version" in ran.out
    assert "1 kind 77" in ran.out


def test_hostile_text_never_reaches_the_terminal(inferdeck: Command, tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31ma.deck"
    write(path, [[Record(6, 1.0, b'{"reason": "\\u001b[2J gone \\u202e"}', "w\x1b]0;x\x07")]])
    for more in (("--info",), ("--print",), ("-o", "json"), ("--info", "-o", "json")):
        ran = inferdeck("replay", str(path), *more)
        assert ran.code == 0
        assert not set("\x1b\x07\u202e") & set(ran.out + ran.err)
