from __future__ import annotations

import json
import time
from pathlib import Path

from console.log_lines import parsed, readable, tail_of


def test_our_lines_are_told_by_time_level_message_and_what_else_was_noted() -> None:
    stamp = "2026-03-04T05:06:07.891Z"
    line = json.dumps(
        {"time": stamp, "level": "warning", "component": "w", "message": "slow", "took": 1.5, "why": "a b"}
    )
    local = time.strftime("%H:%M:%S", time.localtime(1772600767))
    assert readable(line) == [f'{local} WARNING slow  took=1.5 why="a b"']


def test_lines_of_others_stay_as_they_are_but_literal() -> None:
    assert readable("plain \x1b[31m text\r") == ["plain \\x1b[31m text"]
    assert readable("{not json") == ["{not json"]
    assert readable('{"other": 1}') == ['{"other": 1}']
    assert parsed("[]") is None


def test_a_traceback_follows_its_line() -> None:
    line = json.dumps({"time": "?", "level": "error", "message": "m", "exception": "Traceback:\n  boom"})
    assert readable(line) == ["? ERROR   m", "    Traceback:", "      boom"]


def test_the_tail_is_of_what_was_written_since(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("old\nnew 1\nnew 2\n")
    assert tail_of(path, 5, start=4) == ["new 1", "new 2"]
    assert tail_of(path, 1) == ["new 2"]
    assert tail_of(tmp_path / "none", 5) == []
