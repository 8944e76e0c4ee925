"""``load`` as a command: what it prints where, its exit codes, and a run that is broken off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.unit.console.conftest import Command
from tests.unit.console.fake_operator import FakeOperator
from tests.unit.console.openai_server import OpenAIServer
from tests.unit.console.screen import Screen


def test_a_run_is_summed_up_for_people_and_for_programs(endpoint: OpenAIServer, inferdeck: Command) -> None:
    words = ("load", "--url", endpoint.url, "-n", "6", "-c", "2", "--prompt-tokens", "4", "--output-tokens", "9")
    shown = inferdeck(*words)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines()[0].startswith("m · stream · closed loop, 2 at a time · ")
    assert "6 ok" in shown.out
    data = json.loads(inferdeck(*words, "-o", "json").out)
    assert data["requests"]["ok"] == 6
    assert yaml.safe_load(inferdeck(*words, "-o", "yaml", "--rate", "500").out)["loop"]["open"] is True
    bodies = [[call.body for call in endpoint.calls[start : start + 6]] for start in (0, 6)]
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize(("prefixes", "roles"), [("0", ["user"]), ("2", ["system", "user"])])
def test_shared_prefixes_are_system_prompts(
    endpoint: OpenAIServer, inferdeck: Command, prefixes: str, roles: list[str]
) -> None:
    inferdeck("load", "--url", endpoint.url, "-n", "8", "--prefixes", prefixes, "--prefix-tokens", "5")
    sent = [[message["role"] for message in call.body["messages"]] for call in endpoint.calls]
    assert sent == [roles] * 8


def test_only_failures_are_exit_1_and_some_are_exit_5(endpoint: OpenAIServer, inferdeck: Command) -> None:
    endpoint.refuse_every = 1
    failed = inferdeck("load", "--url", endpoint.url, "-n", "4")
    assert failed.code == 1
    assert "4 × 503 overloaded: no: overloaded" in failed.out
    endpoint.refuse_every = 2
    assert inferdeck("load", "--url", endpoint.url, "-n", "4").code == 5


def test_ctrl_c_sums_up_what_was_measured(endpoint: OpenAIServer, home: Path) -> None:
    screen = Screen.run(home, "load", "--url", endpoint.url, "--duration", "10m", "-c", "2", columns=100)
    screen.until("2 running")
    screen.type("\x03")
    assert screen.end() == 130
    assert "requests" in screen.text
    assert "Traceback" not in screen.text


def test_an_end_from_outside_sums_up_what_was_measured(endpoint: OpenAIServer, home: Path) -> None:
    screen = Screen.run(home, "load", "--url", endpoint.url, "--duration", "10m", "-c", "2", columns=100)
    screen.until("2 running")
    screen.process.terminate()
    assert screen.end() == 130
    assert "requests" in screen.text
    assert "Traceback" not in screen.text


def test_figures_of_a_simulator_say_so(endpoint: OpenAIServer, inferdeck: Command) -> None:
    words = ("load", "--url", endpoint.url, "-n", "2")
    data = json.loads(inferdeck(*words, "-o", "json").out)
    assert data["simulated"] is False
    endpoint.simulated = True
    for more in ((), ("-m", "m")):
        assert inferdeck(*words, *more).out.startswith("m · simulated · stream · ")
    unknown = json.loads(inferdeck(*words, "-m", "unlisted", "-o", "json").out)
    assert unknown["simulated"] is None, "nobody said"


def test_a_server_that_lists_no_models_still_takes_a_named_one(endpoint: OpenAIServer, inferdeck: Command) -> None:
    endpoint.models = ()
    assert inferdeck("load", "--url", endpoint.url, "-n", "2").code == 3
    assert inferdeck("load", "--url", endpoint.url, "-n", "2", "-m", "m").code == 0


def test_a_platform_knows_which_models_it_has(
    home: Path, operator: FakeOperator, endpoint: OpenAIServer, inferdeck: Command
) -> None:
    endpoint.models = ("smollm2-135m", "qwen")
    state = json.loads((home / "state.json").read_text())
    (home / "state.json").write_text(json.dumps({**state, "gateway_urls": [endpoint.url]}))
    ran = inferdeck("load", "-m", "smolm2", "-n", "2")
    assert (ran.code, ran.out) == (3, "")
    assert "no model 'smolm2' at " in ran.err
    assert "did you mean smollm2-135m? There are smollm2-135m, qwen" in ran.err
    assert "; there are smollm2-135m, qwen" in inferdeck("load", "-m", "zzz", "-n", "2").err
    assert not endpoint.calls
