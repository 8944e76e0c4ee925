from __future__ import annotations

import asyncio
import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import pytest

from console.home import Home as ConsoleHome
from console.home import State
from console.launch import ControlPlane
from console.learn.sandbox import RunningSandbox, settings_text
from control_plane.contracts.errors import Unauthenticated
from control_plane.contracts.home import Home
from control_plane.contracts.worker_spec import start_ticks
from control_plane.settings.reader import load_settings
from lessons.catalogue import folders
from lessons.loader import load
from lessons.model import Sandbox


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.name)
def test_the_control_plane_reads_what_a_lesson_wants(folder: Path, tmp_path: Path) -> None:
    wanted = load(folder).sandbox
    file = tmp_path / "lesson.toml"
    file.write_text(settings_text(wanted))
    settings = load_settings(file, Home.resolve(tmp_path))
    (pool,) = settings.pools
    assert (pool.name, pool.engine, pool.replicas) == ("w", wanted.engine, wanted.replicas)
    assert wanted.engine_args.items() <= pool.engine_args.items()
    assert (settings.router.profile, settings.router.replicas) == (wanted.profile, wanted.routers)
    assert (settings.gateway.port, settings.api.port) == (0, 0)


def test_arguments_keep_their_types(tmp_path: Path) -> None:
    arguments = {"profile": 'a "quoted" one', "speed": 2.0, "scripts": True, "block_size": 16}
    file = tmp_path / "lesson.toml"
    file.write_text(settings_text(Sandbox(max_context=512, engine_args=arguments)))
    (pool,) = load_settings(file, Home.resolve(tmp_path)).pools
    assert pool.engine_args == arguments
    assert pool.max_context == 512


class Own:
    """Stands in for the control plane of a sandbox: it ends when a test lets it."""

    def __init__(self) -> None:
        self.let_go_of = asyncio.Event()
        self.gone = asyncio.Event()

    def let_go(self) -> None:
        self.let_go_of.set()

    async def ended(self) -> int:
        await self.gone.wait()
        return 0


def sandbox_in(folder: Path, own: Own) -> RunningSandbox:
    folder.mkdir()
    return RunningSandbox(ConsoleHome(folder), cast(ControlPlane, own), Sandbox())


def homes(folder: Path) -> int:
    return len(list(folder.iterdir()))


async def test_a_home_stays_while_its_control_plane_may_run(tmp_path: Path) -> None:
    own = Own()
    made = sandbox_in(tmp_path / "home", own)
    closing = asyncio.create_task(made.close())
    await own.let_go_of.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert made.home.path.exists()
    own.gone.set()
    await made.close()
    assert not made.home.path.exists()


async def test_a_platform_that_its_operator_may_not_stop_ends_without_its_lifeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Own()
    made = sandbox_in(tmp_path / "home", own)
    pid = os.getpid()
    state = State(pid, start_ticks(pid), "cp", "127.0.0.1:1", (), "", "")
    made.home.state_path.write_text(json.dumps(asdict(state)))
    asked: list[bool] = []

    async def stop(home: ConsoleHome, *, grace_s: float) -> bool:
        asked.append(own.let_go_of.is_set())
        if not own.let_go_of.is_set():
            raise Unauthenticated("no key can be read")
        return True

    monkeypatch.setattr("console.learn.sandbox.stop", stop)
    own.gone.set()
    await made.close()
    assert asked == [False, True], "before its end and after it"
    assert not made.home.path.exists()


async def test_a_start_that_is_cancelled_again_and_again_is_over_when_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, waiting = Own(), asyncio.Event()

    async def never(*_: Any, **__: Any) -> None:
        waiting.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("console.learn.sandbox.ControlPlane.start", lambda *_, **__: own)
    monkeypatch.setattr("console.learn.sandbox.wait_until_ready", never)
    starting = asyncio.create_task(RunningSandbox.start(Sandbox(), lambda _: None))
    await waiting.wait()
    starting.cancel()
    await own.let_go_of.wait()
    for _ in range(2):
        starting.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert not starting.done()
    assert homes(tmp_path) == 1
    own.gone.set()
    with suppress(asyncio.CancelledError):
        await starting
    assert starting.cancelled()
    assert homes(tmp_path) == 0
