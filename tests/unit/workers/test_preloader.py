import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from control_plane.contracts.worker_spec import WorkerSpec, start_ticks

TIMEOUT_S = 60.0
SCRIPT = """
import os, signal, socket, sys, time
from workers.preloader import Preloader
def load():
    if os.environ.get("SLOW_IMPORT"):
        sys.stdin.read(1)
    global loaded
    loaded = True
def work(spec):
    if spec.model == "crash":
        raise RuntimeError("boom")
    if spec.model == "sleep":
        print("asleep", os.getpid(), os.getsid(0), signal.getsignal(signal.SIGCHLD), flush=True)
        time.sleep(60)
    print("worked", spec.worker_id, loaded, flush=True)
    return spec.threads
Preloader(socket.socket(fileno=int(sys.argv[1])), load, work).serve()
print("preloader ended", flush=True)
"""


@dataclass
class Owner:
    """The other end of a preloader whose workers are small functions."""

    process: subprocess.Popen[str]
    control: socket.socket
    folder: Path

    def __post_init__(self) -> None:
        self._lines = self.control.makefile("r")

    def spec(self, worker_id: str, **fields: Any) -> tuple[Path, Path]:
        log = self.folder / "logs" / f"{worker_id}.log"
        spec = WorkerSpec(worker_id, "p", "vllm", fields.pop("model", "m"), "s", "a", str(log), "c", **fields)
        path = self.folder / f"{worker_id}.spec.json"
        spec.save(path)
        return path, log

    def ask(self, path: Path | str, op: str = "spawn") -> None:
        self.control.sendall(json.dumps({"op": op, "spec": str(path)}).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._lines.readline())
        return message

    def leave(self) -> str:
        self._lines.close()
        self.control.close()
        return self.process.communicate(timeout=TIMEOUT_S)[0]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def owner(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Owner]:
    ours, theirs = socket.socketpair()
    ours.settimeout(TIMEOUT_S)
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **getattr(request, "param", {})},
    )
    theirs.close()
    try:
        yield Owner(process, ours, tmp_path)
    finally:
        ours.close()
        process.kill()
        process.communicate()


def test_a_worker_is_forked_with_what_was_loaded_and_writes_its_own_log(owner: Owner) -> None:
    assert owner.hear()["op"] == "ready"
    path, log = owner.spec("w-1", threads=0)
    owner.ask(path)
    answer = owner.hear()
    assert (answer["op"], answer["spec"]) == ("spawned", str(path))
    assert owner.leave() == "preloader ended\n"
    until(lambda: log.exists() and log.read_text() == "worked w-1 True\n")
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("owner", [{"SLOW_IMPORT": "1"}], indirect=True)
def test_what_is_asked_during_the_imports_waits_for_them(owner: Owner) -> None:
    first, _ = owner.spec("w-1")
    second, _ = owner.spec("w-2")
    owner.ask(first)
    owner.ask(second)
    assert owner.process.stdin is not None
    owner.process.stdin.write("x")
    owner.process.stdin.flush()
    ready = owner.hear()
    assert ready["op"] == "ready"
    assert ready["import_s"] >= 0
    assert [owner.hear()["spec"] for _ in range(2)] == [str(first), str(second)]


def test_workers_live_on_in_sessions_of_their_own_when_the_owner_leaves(owner: Owner) -> None:
    owner.hear()
    path, log = owner.spec("w-1", model="sleep")
    owner.ask(path)
    pid = owner.hear()["pid"]
    try:
        assert owner.leave() == "preloader ended\n"
        assert start_ticks(pid)
        until(lambda: log.exists() and "\n" in log.read_text())
        assert log.read_text().split()[:3] == ["asleep", str(pid), str(pid)]
    finally:
        os.kill(pid, signal.SIGKILL)


def test_dead_workers_are_reaped(owner: Owner) -> None:
    owner.hear()
    path, _ = owner.spec("w-1", model="sleep")
    owner.ask(path)
    pid = owner.hear()["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pid}").exists())
    assert owner.process.poll() is None


def test_a_crash_ends_the_worker_only(owner: Owner) -> None:
    owner.hear()
    path, log = owner.spec("w-1", model="crash")
    owner.ask(path)
    assert owner.hear()["op"] == "spawned"
    other, other_log = owner.spec("w-2")
    owner.ask(other)
    assert owner.hear()["op"] == "spawned"
    assert owner.leave() == "preloader ended\n"
    until(lambda: log.exists() and "RuntimeError: boom" in log.read_text())
    until(lambda: other_log.exists() and "worked w-2" in other_log.read_text())


@pytest.mark.parametrize(
    "line", [b"not json\n", b"[]\n", b'{"op": "spawn"}\n', b'{"op": "dance", "spec": "x"}\n', b"\n"]
)
def test_a_request_that_is_none_is_answered_and_the_next_one_works(owner: Owner, line: bytes) -> None:
    owner.hear()
    owner.control.sendall(line)
    answer = owner.hear()
    assert answer["op"] == "error"
    assert answer["message"]
    path, _ = owner.spec("w-1")
    owner.ask(path)
    assert owner.hear()["op"] == "spawned"


def test_a_spec_that_cannot_be_read_is_an_error_that_names_it(owner: Owner) -> None:
    owner.hear()
    (owner.folder / "broken.json").write_text('{"worker_id": 1, "unknown": 2}')
    for path in (owner.folder / "missing.json", owner.folder / "broken.json"):
        owner.ask(path)
        answer = owner.hear()
        assert (answer["op"], answer["spec"]) == ("error", str(path))


def test_requests_may_come_in_pieces(owner: Owner) -> None:
    owner.hear()
    path, _ = owner.spec("w-1")
    text = json.dumps({"op": "spawn", "spec": str(path)}).encode() + b"\n"
    for start in range(0, len(text), 7):
        owner.control.sendall(text[start : start + 7])
    assert owner.hear()["op"] == "spawned"
