"""``chat`` against a scripted endpoint: one question, a conversation, and answers that are broken off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.console.conftest import Command
from tests.unit.console.fake_operator import FakeOperator
from tests.unit.console.openai_server import OpenAIServer
from tests.unit.console.screen import Screen


def test_the_answer_goes_to_stdout_and_the_stopwatch_to_stderr(endpoint: OpenAIServer, inferdeck: Command) -> None:
    ran = inferdeck("chat", "one", "two \x1b[31mthree", "--url", endpoint.url)
    assert (ran.code, ran.out) == (0, "one two \\x1b[31mthree\n")
    assert ran.err.startswith("TTFT ")
    assert "3 tokens in" in ran.err
    assert "prompt 7 (3 cached)" in ran.err


def test_options_reach_the_endpoint(endpoint: OpenAIServer, inferdeck: Command) -> None:
    words = (
        "--system",
        "be brief",
        "--max-tokens",
        "5",
        "--temperature",
        "0.5",
        "--seed",
        "7",
        "-m",
        "other",
        "--plain",
    )
    ran = inferdeck("chat", "hi", *words, "--url", endpoint.url, "-o", "json")
    assert json.loads(ran.out)["answer"] == "hi"
    [call] = endpoint.calls
    assert call.body == {
        "model": "other", "stream": False, "max_tokens": 5, "temperature": 0.5, "seed": 7,
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
    }  # fmt: skip
    assert "authorization" not in call.headers


def test_a_key_comes_from_a_file_or_the_environment_and_is_never_shown(
    endpoint: OpenAIServer, inferdeck: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("sk-from-file\n")
    monkeypatch.setenv("MY_KEY", "sk-from-variable")
    for words in (("--api-key-file", str(tmp_path / "key")), ("--api-key-env", "MY_KEY")):
        ran = inferdeck("chat", "hi", "--url", endpoint.url, *words)
        assert "sk-from" not in ran.out + ran.err
    assert [call.headers["authorization"] for call in endpoint.calls] == [
        "Bearer sk-from-file",
        "Bearer sk-from-variable",
    ]
    assert inferdeck("chat", "hi", "--url", endpoint.url, "--api-key-env", "NONE").code == 4


def test_a_refusal_is_told_with_its_code(endpoint: OpenAIServer, inferdeck: Command) -> None:
    ran = inferdeck("chat", "fail", "--url", endpoint.url)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "error: no: overloaded (HTTP 503, overloaded)\n"


def test_an_endpoint_that_is_not_there(inferdeck: Command) -> None:
    ran = inferdeck("chat", "hi", "--url", "http://127.0.0.1:1")
    assert (ran.code, ran.err) == (6, "error: cannot reach http://127.0.0.1:1/v1: connection refused\n")


def test_a_conversation_on_a_terminal(endpoint: OpenAIServer, home: Path) -> None:
    screen = Screen.run(home, "chat", "--url", endpoint.url, "--system", "s", columns=100)
    screen.until("> ")
    screen.type("hello there\r")
    screen.until("2 tokens in")
    screen.type("fail\r")
    screen.until("overloaded")
    screen.type("forever\r")
    screen.until("on on on")
    screen.type("\x03")
    screen.until("cancelled after")
    screen.type("and again\r")
    screen.until("and again\r\n")
    screen.type("/reset\r")
    screen.until("forgotten")
    screen.type("new\r")
    screen.until("1 token in")
    assert screen.leave("\x04") == 0
    last_two = [[message["content"] for message in call.body["messages"]] for call in endpoint.calls[-2:]]
    assert last_two == [["s", "hello there", "hello there", "and again"], ["s", "new"]]


def test_ctrl_c_at_the_prompt_twice_leaves(endpoint: OpenAIServer, home: Path) -> None:
    screen = Screen.run(home, "chat", "--url", endpoint.url, columns=100)
    screen.until("> ")
    screen.until("once more", typing="\x03")
    assert screen.leave("\x03") == 130


def test_ctrl_c_ends_the_only_answer_with_130(endpoint: OpenAIServer, home: Path) -> None:
    screen = Screen.run(home, "chat", "forever", "--url", endpoint.url, columns=100)
    screen.until("on on on")
    screen.type("\x03")
    assert screen.end() == 130
    assert "cancelled after" in screen.text
    assert "Traceback" not in screen.text


def test_figures_of_a_simulator_say_so(endpoint: OpenAIServer, inferdeck: Command) -> None:
    endpoint.simulated = True
    for words in ((), ("-m", "m")):
        assert inferdeck("chat", "hi", "--url", endpoint.url, *words).err.startswith("simulated · ")
    assert json.loads(inferdeck("chat", "hi", "--url", endpoint.url, "-o", "json").out)["simulated"] is True
    endpoint.simulated = False
    assert "simulated" not in inferdeck("chat", "hi", "--url", endpoint.url).err


def test_a_model_that_is_not_there_is_told_with_where_they_are_listed(
    home: Path, operator: FakeOperator, endpoint: OpenAIServer, inferdeck: Command
) -> None:
    state = json.loads((home / "state.json").read_text())
    (home / "state.json").write_text(json.dumps({**state, "gateway_urls": [endpoint.url]}))
    ran = inferdeck("chat", "missing", "-m", "gpt-4")
    assert (ran.code, ran.err.splitlines()) == (
        3,
        ["error: no: model_not_found (HTTP 404, model_not_found)", f"hint: inferdeck get models --home {home}"],
    )
    assert "hint" not in inferdeck("chat", "missing", "-m", "gpt-4", "--url", endpoint.url).err
