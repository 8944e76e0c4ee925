"""Processes that are looked after: children, strangers, and what they leave."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from control_plane.contracts.worker_spec import Announcement, WorkerSpec, start_ticks
from control_plane.fleet.launcher import local
from control_plane.fleet.launcher.base import LaunchFailed
from control_plane.fleet.launcher.devices import visible_gpus
from control_plane.fleet.launcher.local import LocalLauncher, same_work
from control_plane.fleet.launcher.preloader import Preloader
from control_plane.fleet.launcher.process import Process, kill_session

SLEEP = "import time; time.sleep(600)"


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[bytes]]]:
    made: list[subprocess.Popen[bytes]] = []
    yield made
    for child in made:
        child.kill()
        child.wait()


def spawn(children: list[subprocess.Popen[bytes]], code: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE)
    children.append(child)
    return child


async def test_a_childs_exit_is_told_in_words(children: list[subprocess.Popen[bytes]]) -> None:
    done = Process.of_child(spawn(children, "raise SystemExit(3)"))
    await done.wait()
    assert (done.exit_code, done.exit, done.ended) == (3, "exit code 3", True)
    killed = Process.of_child(spawn(children, SLEEP))
    assert not killed.ended
    killed.send(signal.SIGKILL)
    await killed.wait()
    assert killed.exit == "killed by SIGKILL"
    killed.send(signal.SIGKILL)


async def test_a_stranger_is_held_by_pid_and_start_time(children: list[subprocess.Popen[bytes]]) -> None:
    child = spawn(children, SLEEP)
    ticks = start_ticks(child.pid)
    assert Process.attach(child.pid, ticks + 1) is None
    assert Process.attach(0, ticks) is None
    process = Process.attach(child.pid, ticks)
    assert process is not None
    process.send(signal.SIGTERM)
    await process.wait()
    assert process.exit == "ended"
    assert Process.attach(child.pid, ticks) is None, "a zombie has ended"


async def test_what_a_dead_leader_left_is_killed_and_nothing_else(children: list[subprocess.Popen[bytes]]) -> None:
    code = (
        f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {SLEEP!r}]).pid, flush=True); {SLEEP}"
    )
    leader, bystander = spawn(children, code), spawn(children, SLEEP)
    assert leader.stdout is not None
    orphan = int(leader.stdout.readline())
    ticks = start_ticks(leader.pid)
    held = Process.attach(orphan, start_ticks(orphan))
    assert held is not None
    leader.kill()
    leader.wait()
    assert kill_session(leader.pid, ticks) == [orphan]
    await held.wait()
    assert kill_session(leader.pid, ticks) == []
    assert kill_session(bystander.pid, start_ticks(bystander.pid) - 1) == [], "another process has that pid now"
    assert bystander.poll() is None


def spec(folder: Path, worker_id: str = "p-1", **fields: object) -> WorkerSpec:
    given = {
        "pool": "p",
        "engine": "scripted",
        "model": "m",
        "source": "s",
        "announce_path": str(folder / f"{worker_id}.json"),
        "log_path": str(folder / f"worker-{worker_id}.log"),
        "cache_dir": str(folder),
    } | fields
    return WorkerSpec(worker_id, **given)  # type: ignore[arg-type]


async def test_a_worker_is_found_again_by_its_record(tmp_path: Path) -> None:
    launcher = LocalLauncher(tmp_path, tmp_path)
    process = await launcher.start(spec(tmp_path))
    said = launcher.announcement("p-1")
    assert said is not None
    assert (said.pid, said.start_ticks) == (process.pid, process.ticks)
    (found,) = LocalLauncher(tmp_path, tmp_path).found()
    assert found.spec == spec(tmp_path)
    again = launcher.attach(found)
    assert again is not None
    assert again.pid == process.pid
    (tmp_path / "p-1.json").unlink()
    (bare,) = launcher.found()
    assert bare.announcement is None
    unannounced = launcher.attach(bare)
    assert unannounced is not None
    assert unannounced.pid == process.pid, "found by its command line"
    process.send(signal.SIGKILL)
    await process.wait()
    assert launcher.attach(found) is None
    launcher.clean_up("p-1", (process.pid, process.ticks), forget=True)
    assert launcher.found() == ()
    await launcher.close()


async def test_a_worker_that_cannot_be_recorded_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def refuse(path: Path, announcement: Announcement) -> None:
        made.append(announcement.pid)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(local, "_record", refuse)
    launcher = LocalLauncher(tmp_path, tmp_path)
    with pytest.raises(LaunchFailed, match=r"worker p-1 cannot be started: .*No space left"):
        await launcher.start(spec(tmp_path))
    (pid,) = made
    assert start_ticks(pid) == 0
    await launcher.close()


async def test_a_record_from_before_the_machine_started_names_nobody(tmp_path: Path) -> None:
    launcher = LocalLauncher(tmp_path, tmp_path)
    Announcement("p-1", "i", os.getpid(), start_ticks(os.getpid()), "serving", "127.0.0.1:1").save(
        tmp_path / "p-1.json"
    )
    (found,) = launcher.found()
    mine = launcher.attach(found)
    assert mine is not None
    mine.close()
    os.utime(tmp_path / "p-1.json", (1000.0, 1000.0))
    assert launcher.attach(found) is None


def test_files_that_are_no_records_are_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "p-1.json").write_text("{")
    (tmp_path / "p-2.spec.json").write_text("[]")
    found = LocalLauncher(tmp_path, tmp_path).found()
    assert [(each.worker_id, each.spec, each.announcement) for each in found] == [
        ("p-1", None, None),
        ("p-2", None, None),
    ]


def test_what_makes_two_specs_the_same_work(tmp_path: Path) -> None:
    assert same_work(spec(tmp_path), spec(tmp_path / "elsewhere", gpus=[1], port=7))
    assert not same_work(spec(tmp_path), spec(tmp_path, dtype="float16"))
    assert not same_work(spec(tmp_path), spec(tmp_path, engine_args={"a": 1}))


PRELOADER = """
import json, os, socket, sys, time
control = socket.socket(fileno=int(sys.argv[1]))
def say(**message):
    control.sendall(json.dumps(message).encode() + b"\\n")
say(op="ready", import_s=0.1)
for line in control.makefile():
    path = json.loads(line)["spec"]
    name = path.rsplit("/", 1)[1]
    if name.startswith("bad"):
        say(op="error", spec=path, message="no such luck")
    elif name.startswith("babble"):
        control.sendall(b"{no json\\n")
    elif name.startswith("die"):
        print("last words", flush=True); os._exit(9)
    else:
        pid = os.fork()
        if not pid:
            os.setsid(); time.sleep(600); os._exit(0)
        say(op="spawned", spec=path, pid=pid)
"""


@pytest.fixture
def preloader(tmp_path: Path) -> Preloader:
    script = tmp_path / "preloader.py"
    script.write_text(textwrap.dedent(PRELOADER))
    return Preloader(tmp_path / "preloader.log", lambda fd: [sys.executable, str(script), str(fd)])


async def test_the_preloader_forks_and_its_workers_outlive_it(tmp_path: Path, preloader: Preloader) -> None:
    launcher = LocalLauncher(tmp_path, tmp_path, preloader)
    processes = await asyncio.gather(*(launcher.start(spec(tmp_path, name, engine="vllm")) for name in ("p-1", "p-2")))
    first = preloader.pid
    assert first
    assert len({process.pid for process in processes}) == 2
    await launcher.close()
    assert not preloader.pid
    assert start_ticks(first) == 0
    for process in processes:
        assert not process.ended
        process.send(signal.SIGKILL)
        await process.wait()


async def test_a_preloader_that_cannot_or_dies_fails_the_launch_and_is_made_anew(
    tmp_path: Path, preloader: Preloader
) -> None:
    with pytest.raises(LaunchFailed, match="could not fork: no such luck"):
        await preloader.spawn(tmp_path / "bad")
    first = preloader.pid
    with pytest.raises(LaunchFailed, match=r"the preloader ended \(exit code 9\): last words"):
        await preloader.spawn(tmp_path / "die")
    with pytest.raises(LaunchFailed, match=r"the preloader ended \(killed by SIGKILL\)"):
        await preloader.spawn(tmp_path / "babble")
    pid = await preloader.spawn(tmp_path / "good")
    assert preloader.pid not in (0, first)
    os.kill(pid, signal.SIGKILL)
    await preloader.close()


async def test_a_preloader_that_is_not_there_fails_the_launch(tmp_path: Path) -> None:
    preloader = Preloader(tmp_path / "x.log", lambda fd: ["/nonexistent/python"])
    with pytest.raises(LaunchFailed, match="cannot be started"):
        await preloader.spawn(tmp_path / "p")
    await preloader.close()


def test_devices_come_from_the_variable_or_the_machine(tmp_path: Path) -> None:
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "2, 5"}, tmp_path) == (2, 5)
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}, tmp_path) == ()
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "GPU-8932f937"}, tmp_path) == ()
    for name in ("nvidia0", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert visible_gpus({}, tmp_path) == (0, 2, 10)
