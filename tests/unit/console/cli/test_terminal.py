"""The command as a process of its own: pipes, terminals, and what it loads to start."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.text import width
from tests.unit.console.conftest import Command
from tests.unit.console.fake_operator import FakeOperator, request, worker
from tests.unit.console.screen import ANSI, COMMAND, LIMIT_S, Screen


def piped(home: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "INFERDECK_HOME": str(home), **environment}
    return subprocess.run(
        [*COMMAND, *words],
        env=env,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_a_pipe_gets_no_escape_and_full_values_however_narrow_the_terminal(operator: FakeOperator, home: Path) -> None:
    long = "model-" + "x" * 150
    operator.update(pools=(replace(operator.state.pools[0], source=long),))
    ran = piped(home, "get", "pools", COLUMNS="20")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert long in ran.stdout
    assert "\x1b" not in ran.stdout


def test_a_terminal_gets_colour_unless_told_otherwise(operator: FakeOperator, home: Path) -> None:
    plain = Screen.run(home, "get", "workers", NO_COLOR="1")
    assert plain.end() == 0
    assert "\x1b" not in plain.text
    dumb = Screen.run(home, "get", "workers", TERM="dumb")
    assert dumb.end() == 0
    assert "\x1b" not in dumb.text
    coloured = Screen.run(home, "get", "workers")
    assert coloured.end() == 0
    assert "\x1b[32mready" in coloured.text
    assert ANSI.sub("", coloured.text) == plain.text


@pytest.mark.parametrize("words", [("get", "workers", "-o", "wide"), ("describe", "request/req-1"), ("top",)])
def test_no_line_is_wider_than_twenty_columns(operator: FakeOperator, home: Path, words: tuple[str, ...]) -> None:
    screen = Screen.run(home, *words, columns=20)
    assert screen.end() == 0
    assert [line for line in screen.lines if width(line) > 20] == []


@pytest.mark.parametrize(
    ("redirection", "why"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")]
)
@pytest.mark.parametrize(("words", "unbuffered"), [("get workers", ""), ("get workers", "1"), ("logs smollm2-1", "")])
def test_output_that_cannot_be_written_is_an_error_in_one_line(
    operator: FakeOperator, home: Path, redirection: str, why: str, unbuffered: str, words: str
) -> None:
    env = {**os.environ, "INFERDECK_HOME": str(home), "PYTHONUNBUFFERED": unbuffered}
    script = f"{shlex.join(COMMAND)} {words} {redirection}"
    ran = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (ran.returncode, ran.stderr) == (1, f"error: the output cannot be written: {why}\n")


@pytest.mark.parametrize("closed", ["2>&-", "<&-"])
def test_a_closed_stderr_or_stdin_changes_nothing(operator: FakeOperator, home: Path, closed: str) -> None:
    env = {**os.environ, "INFERDECK_HOME": str(home)}
    script = f"{shlex.join(COMMAND)} get workers -o name {closed}"
    ran = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (ran.returncode, ran.stdout.splitlines()) == (0, ["worker/smollm2-1", "worker/smollm2-2"])


def test_json_is_the_same_on_a_terminal_and_in_a_pipe(operator: FakeOperator, home: Path) -> None:
    screen = Screen.run(home, "get", "workers", "-o", "json", columns=20)
    assert screen.end() == 0
    assert screen.text.replace("\r\n", "\n") == piped(home, "get", "workers", "-o", "json").stdout


def test_a_reader_that_leaves_early_is_no_failure(operator: FakeOperator, home: Path) -> None:
    operator.update(workers=tuple(worker(f"w{number}") for number in range(2000)))
    process = subprocess.Popen(
        [*COMMAND, "get", "workers", "-o", "json"],
        env={**os.environ, "INFERDECK_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "[\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(LIMIT_S) == 0
    process.stderr.close()


@pytest.mark.parametrize(("answer", "code", "called"), [("y\n", 0, ["cancel req-1"]), ("n\n", 1, []), ("\x04", 1, [])])
def test_a_terminal_is_asked(operator: FakeOperator, home: Path, answer: str, code: int, called: list[str]) -> None:
    screen = Screen.run(home, "cancel", "req-1")
    screen.until("Go on? [y/N] ")
    assert "in flight: 1" in screen.text
    assert operator.calls == []
    screen.type(answer)
    assert screen.end() == code
    assert operator.calls == called


def test_ctrl_c_at_the_question_changes_nothing(operator: FakeOperator, home: Path) -> None:
    screen = Screen.run(home, "scale", "smollm2=0")
    screen.until("Go on? [y/N] ")
    assert screen.leave("\x03") == 130
    assert operator.calls == []


def test_ctrl_c_ends_a_live_view_with_130(operator: FakeOperator, home: Path) -> None:
    screen = Screen.run(home, "top", "--live")
    screen.until("smollm2-1")
    os.kill(screen.process.pid, signal.SIGINT)
    assert screen.end() == 130
    assert "Traceback" not in screen.text


def test_an_ascii_output_still_gets_everything(operator: FakeOperator, home: Path) -> None:
    ran = piped(home, "describe", "worker/smollm2-1", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "\\u2593" in ran.stdout


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from console.cli.main import run; code = run(['--help'])\n"
        "heavy = {'grpc', 'textual', 'rich', 'asyncio', 'yaml', 'httptools', 'httpx', 'psutil', 'vllm', 'torch',"
        " 'sqlalchemy', 'pydantic', 'google.protobuf', 'control_plane.fleet'}\n"
        "sys.stderr.write(','.join(sorted(heavy & set(sys.modules)))); sys.exit(code)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_reading_loads_no_user_interface(operator: FakeOperator, home: Path) -> None:
    code = (
        "import sys; from console.cli.main import run; code = run(['get', 'workers', '-o', 'json'])\n"
        "heavy = {'textual', 'rich', 'yaml', 'httptools', 'vllm', 'torch', 'sqlalchemy', 'uvloop'}\n"
        "sys.stderr.write(','.join(sorted(heavy & set(sys.modules)))); sys.exit(code)"
    )
    env = {**os.environ, "INFERDECK_HOME": str(home)}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout)


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=names, other=names)
def test_any_text_goes_through_every_view_without_a_control_byte(
    operator: FakeOperator, inferdeck: Command, name: str, other: str
) -> None:
    operator.update(
        workers=(worker(name, reason=other, pool=other, log_path=other, address=other),),
        requests=(request(name, model=other, key_id=other, reason=name, worker_id=name),),
    )
    operator.log = f"{name}\n{other}".encode()
    for words in (
        ("get", "workers", "-o", "wide"), ("get", "requests"), ("get", "requests", "-o", "json"), ("logs", "g1"),
        ("get", "workers", "-o", "yaml"), ("describe", "requests", name), ("get", "workers", "-o", "name"),
    ):  # fmt: skip
        ran = inferdeck(*words)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", ran.out + ran.err)
    [data] = json.loads(inferdeck("get", "workers", "-o", "json").out)
    assert (data["id"], data["reason"]) == (name, other)


def test_a_demo_beside_a_running_platform_says_whose_console_it_opens(operator: FakeOperator, home: Path) -> None:
    screen = Screen.run(home, "demo", columns=100)
    screen.until(f"already up in {home}: its console opens, and leaving it ends nothing")
    assert screen.leave("q") == 0
