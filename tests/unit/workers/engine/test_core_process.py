import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from control_plane.contracts.worker_spec import start_ticks
from workers.engine.core_process import CoreProcesses, LastWords, kill_all
from workers.engine.vllm_env import REASON_FILE

SPAWN = multiprocessing.get_context("spawn")
TIMEOUT_S = 60.0


def say_and_fail(words: str) -> None:
    with open(os.environ[REASON_FILE], "a") as file:
        file.write(words)
    sys.exit(3)


def sleep_with_child() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        child.wait()


async def cause_of(target: Callable[..., Any], *args: Any, then: Callable[[int], None] = lambda pid: None) -> str:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[str] = loop.create_future()
    with LastWords() as last_words:
        process = SPAWN.Process(target=target, args=args)
        process.start()
        core = CoreProcesses([process], last_words.keep(), loop, ended.set_result)
    assert process.pid is not None
    then(process.pid)
    try:
        return await asyncio.wait_for(ended, TIMEOUT_S)
    finally:
        core.close()
        process.join(TIMEOUT_S)


async def test_an_end_is_told_with_the_signal() -> None:
    cause = await cause_of(time.sleep, 60, then=lambda pid: os.kill(pid, signal.SIGKILL))
    assert "was killed by SIGKILL" in cause


async def test_an_end_that_another_thread_has_waited_for_is_told_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    process = SPAWN.Process(target=time.sleep, args=(60,))

    def taken(*_: object) -> None:
        """The other thread has the status, and notes it a moment later."""
        monkeypatch.undo()
        asyncio.get_running_loop().call_later(0.02, process.join)
        raise ChildProcessError

    class Unsaid:
        pid = property(lambda self: process.pid)
        codes = iter([None, -9])
        exitcode = property(lambda self: next(self.codes))

    loop = asyncio.get_running_loop()
    ended: asyncio.Future[str] = loop.create_future()
    process.start()
    monkeypatch.setattr(os, "waitid", taken)
    with LastWords() as last_words:
        core = CoreProcesses([Unsaid()], last_words.keep(), loop, ended.set_result)
    process.kill()
    assert "was killed by SIGKILL" in await asyncio.wait_for(ended, TIMEOUT_S)
    core.close()


async def test_an_end_is_told_with_the_exit_code_and_the_first_last_words() -> None:
    cause = await cause_of(say_and_fail, "ValueError: no room\nRuntimeError: because of that\n")
    assert cause.endswith("exited with 3: ValueError: no room")


async def test_a_family_is_known_and_forgotten_with_its_end() -> None:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[str] = loop.create_future()
    with LastWords() as last_words:
        process = SPAWN.Process(target=sleep_with_child)
        process.start()
        core = CoreProcesses([process], last_words.keep(), loop, ended.set_result)
    async with asyncio.timeout(TIMEOUT_S):
        while len(core.pids()) < 2:
            core.meet_family()
            await asyncio.sleep(0.02)
    pids = core.pids()
    assert pids[0] == process.pid
    kill_all([psutil.Process(pid) for pid in pids])
    assert core.pids() == ()
    await asyncio.wait_for(ended, TIMEOUT_S)
    core.close()


async def test_closed_means_that_nothing_is_told() -> None:
    loop = asyncio.get_running_loop()
    told: list[str] = []
    with LastWords() as last_words:
        process = SPAWN.Process(target=time.sleep, args=(60,))
        process.start()
        core = CoreProcesses([process], last_words.keep(), loop, told.append)
    core.close()
    core.close()
    process.kill()
    await asyncio.to_thread(process.join, TIMEOUT_S)
    await asyncio.sleep(0)
    assert told == []


def test_last_words_are_kept_in_memory_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with LastWords() as last_words:
        path = Path(os.environ[REASON_FILE])
        assert last_words.read() == ""
        with path.open("a") as file:
            file.write("first\nsecond\n")
        assert last_words.read() == "first"
    assert REASON_FILE not in os.environ
    assert not path.exists()


def test_killing_is_complete_when_it_returns() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    kill_all([psutil.Process(child.pid)])
    assert not start_ticks(child.pid)
    child.wait(TIMEOUT_S)
    kill_all([])
