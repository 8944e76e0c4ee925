"""Waiting for, and signalling, exactly the process that was meant; and stopping what a home has left."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.api_access import endpoint_of
from console.home import Home, Unreachable
from console.processes import ended, send
from console.stopping import stop
from control_plane.contracts.worker_spec import alive, start_ticks

LIMIT_S = 30.0


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "300"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def engine() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "300"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def stubborn() -> Iterator[subprocess.Popen[bytes]]:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(300)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
        yield process
        process.kill()
        process.wait()


def record(home: Path, kind: str, name: str, pid: int, ticks: int, **more: object) -> Path:
    path = home / "run" / f"{kind}s" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"pid": pid, "start_ticks": ticks, **more}))
    return path


async def test_the_end_of_a_process_is_noticed(sleeper: subprocess.Popen[bytes]) -> None:
    ticks = start_ticks(sleeper.pid)
    waiting = asyncio.create_task(ended(sleeper.pid, ticks))
    await asyncio.sleep(0)
    assert alive(sleeper.pid, ticks)
    assert not waiting.done()
    send(sleeper.pid, ticks, signal.SIGTERM)
    async with asyncio.timeout(LIMIT_S):
        await waiting
    assert not alive(sleeper.pid, ticks)


async def test_another_process_of_the_same_number_is_neither_waited_for_nor_signalled(
    sleeper: subprocess.Popen[bytes],
) -> None:
    other = start_ticks(sleeper.pid) - 1
    async with asyncio.timeout(LIMIT_S):
        await ended(sleeper.pid, other)
        await ended(2**22 + 5, 1)
    send(sleeper.pid, other, signal.SIGKILL)
    assert sleeper.poll() is None


def test_leftovers_are_live_processes_of_the_records(home: Path, sleeper: subprocess.Popen[bytes]) -> None:
    ticks = start_ticks(sleeper.pid)
    record(home, "worker", "w1", sleeper.pid, ticks)
    record(home, "worker", "w1.spec", sleeper.pid, ticks)
    record(home, "gateway", "g1", sleeper.pid, ticks - 1)
    record(home, "gateway", "g2", 2**22 + 5, 1)
    (home / "run" / "workers" / "broken.json").write_text("[")
    (home / "run" / "workers" / "list.json").write_text("[]")
    assert [entry.name for entry in Home(home).leftovers()] == ["worker/w1"]


def test_a_gateway_serves_on_without_a_control_plane_and_is_found(home: Path, sleeper: subprocess.Popen[bytes]) -> None:
    record(home, "gateway", "g1", sleeper.pid, start_ticks(sleeper.pid), url="http://127.0.0.1:9999")
    with pytest.raises(Unreachable, match=r"the control plane of .* is gone; still running: gateway/g1") as caught:
        Home(home).target()
    assert "takes them over" in (caught.value.hint or "")
    assert endpoint_of(Home(home), None).port == 9999
    record(home, "gateway", "g1", sleeper.pid, 1, url="http://127.0.0.1:9999")
    with pytest.raises(Unreachable, match="no platform is running"):
        endpoint_of(Home(home), None)


def test_a_worker_without_a_record_is_known_by_its_spec(home: Path, tmp_path: Path) -> None:
    def pretend(spec: str) -> subprocess.Popen[bytes]:
        code = "import time; time.sleep(300)"
        return subprocess.Popen([sys.executable, "-c", code, "-m", "workers", "--spec", spec], start_new_session=True)

    mine = pretend(f"{home}/run/workers/w1.spec.json")
    other = pretend(f"{tmp_path}/elsewhere/run/workers/w1.spec.json")
    try:
        assert [entry.pid for entry in Home(home).leftovers()] == [mine.pid]
    finally:
        for process in (mine, other):
            process.kill()
            process.wait()


async def test_stop_ends_what_is_left_and_its_engine_and_removes_the_records(
    home: Path, sleeper: subprocess.Popen[bytes], engine: subprocess.Popen[bytes]
) -> None:
    path = record(home, "worker", "w1", sleeper.pid, start_ticks(sleeper.pid), engine_pids=[engine.pid])
    (home / "state.json").write_text("{}")
    said: list[str] = []
    async with asyncio.timeout(LIMIT_S):
        assert await stop(Home(home), grace_s=1.0, say=said.append)
    assert sleeper.wait(LIMIT_S) == -signal.SIGTERM
    assert engine.wait(LIMIT_S) == -signal.SIGKILL
    assert said == ["left over: worker/w1"]
    assert not path.exists()
    assert not (home / "state.json").exists()
    assert not await stop(Home(home), grace_s=1.0)


@pytest.fixture
def control_plane(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One by its command line; nothing in the home speaks of it."""
    code = "import time; time.sleep(300)"
    words = [sys.executable, "-c", code, "-m", "control_plane", "serve", "--home", str(home)]
    process = subprocess.Popen(words, start_new_session=True)
    yield process
    process.kill()
    process.wait()


async def test_a_control_plane_whose_state_was_lost_is_found_and_ended_first(
    home: Path, control_plane: subprocess.Popen[bytes]
) -> None:
    """It would begin again what is ended beside it."""
    (home / "state.json").write_text("")
    with pytest.raises(Unreachable, match=rf"\(pid {control_plane.pid}\) says nowhere where it listens") as told:
        Home(home).target()
    assert f"kill -9 {control_plane.pid}" in (told.value.hint or "")
    said: list[str] = []
    async with asyncio.timeout(LIMIT_S):
        assert await stop(Home(home), grace_s=1.0, say=said.append)
    assert control_plane.wait(LIMIT_S) == -signal.SIGTERM
    assert said == [f"a control plane (pid {control_plane.pid}) without a readable state.json; asking it to end"]
    assert Home(home).unannounced() is None


async def test_a_process_that_ignores_sigterm_is_killed(
    home: Path, stubborn: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.stopping.TERM_S", 0.2)
    record(home, "worker", "w1", stubborn.pid, start_ticks(stubborn.pid))
    async with asyncio.timeout(LIMIT_S):
        await stop(Home(home), grace_s=1.0)
    assert stubborn.wait(LIMIT_S) == -signal.SIGKILL
