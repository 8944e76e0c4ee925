"""A home in which a fake control plane runs, and commands run against it in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from console.cli.main import run
from control_plane.contracts.worker_spec import start_ticks
from tests.unit.console.fake_operator import KEY, FakeOperator, serve


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the machine reaches a test."""
    for name in ("INFERDECK_HOME", "NO_COLOR", "COLUMNS", "INFERDECK_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    (path / "operator.key").write_text(KEY + "\n")
    (path / "api.key").write_text("sk-inferdeck-" + "a" * 32 + "\n")
    return path


def write_state(home: Path, address: str, pid: int | None = None, gateway: str = "http://127.0.0.1:1") -> None:
    pid = os.getpid() if pid is None else pid
    state = {
        "pid": pid,
        "start_ticks": start_ticks(pid) or 1,
        "control_plane_id": "cp-1",
        "api_address": address,
        "gateway_urls": [gateway],
        "api_key_path": str(home / "api.key"),
        "operator_key_path": str(home / "operator.key"),
        "config": "",
        "version": "0.1.0",
        "started_unix": 1.0,
        "log_path": str(home / "logs" / "control-plane.log"),
    }
    (home / "state.json").write_text(json.dumps(state))


@pytest.fixture
def operator(home: Path) -> Iterator[FakeOperator]:
    fake = FakeOperator()
    server, address = serve(fake)
    write_state(home, address)
    yield fake
    fake.ended.set()
    server.stop(None).wait()


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Command = Callable[..., Ran]


@pytest.fixture
def inferdeck(home: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command line against the home; stdin is no terminal."""

    def call(*words: str, at_home: bool = True) -> Ran:
        code = run([*words, *(["--home", str(home)] if at_home else [])])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return call
