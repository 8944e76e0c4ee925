"""The controller's loop: what makes it decide again, and that it never keeps the others from running."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from control_plane.contracts.errors import NotFound, RequestTimeout
from control_plane.contracts.fleet import RequestPhase, RequestView
from control_plane.contracts.worker import Load, WorkerInfo, WorkerState
from control_plane.contracts.worker_spec import Announcement, WorkerSpec
from control_plane.fleet import controller as controlling
from control_plane.fleet import link as linking
from control_plane.fleet.changes import Changes
from control_plane.fleet.controller import Controller
from control_plane.fleet.events import Events
from control_plane.fleet.health import Health, Life
from control_plane.fleet.launcher.base import Found, LaunchFailed
from control_plane.fleet.launcher.process import Process
from control_plane.fleet.operations import Operations
from control_plane.fleet.pools import Pools
from control_plane.fleet.requests import Requests
from control_plane.fleet.routers import Routers
from control_plane.fleet.state import LOST_STOP_S, PoolTarget, Stage
from control_plane.fleet.worker import Worker
from control_plane.settings import Home, PoolSettings
from control_plane.store import Database, DesiredState, EventLog

MOST_STEPS = 50


class Spun(BaseException):
    """The loop took steps without end; no handler of ordinary errors takes it."""


class CountedPools(Pools):
    steps = 0

    def targets(self) -> tuple[PoolTarget, ...]:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Spun
        return super().targets()


class NoLauncher:
    """Makes nothing and finds nothing."""

    async def start(self, spec: WorkerSpec) -> Process:
        raise LaunchFailed("nothing can be started here")

    def waits_for(self, spec: WorkerSpec) -> str:
        return ""

    def found(self) -> tuple[Found, ...]:
        return ()

    def attach(self, found: Found) -> Process | None:
        return None

    def announcement(self, worker_id: str) -> Announcement | None:
        return None

    def clean_up(self, worker_id: str, process: tuple[int, int] | None, *, forget: bool) -> None:
        pass

    def log_path(self, worker_id: str) -> Path:
        return Path("/nonexistent")

    async def close(self) -> None:
        pass


class Stand:
    """A controller of one pool that wants two GPUs for its worker and has one."""

    def __init__(self, folder: Path, database: Database) -> None:
        store = DesiredState(database)
        settings = (PoolSettings(name="p", replicas=1, tensor_parallel=2, gpus=(0,)),)
        self.pools = CountedPools(settings, Home(folder), store)
        self.changes = Changes()
        self.events = Events(EventLog(database), self.changes)
        self.controller = Controller(self.pools, NoLauncher(), self.events, Requests(), self.changes, frozenset())

    def blocked(self) -> list[str]:
        return [event.message for event in self.events.recent(100) if event.kind == "pool_blocked"]


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    database = Database.open("", tmp_path / "x.db")
    stand = Stand(tmp_path, database)
    yield stand
    await stand.events.close()
    database.close()


async def test_a_pool_without_devices_does_not_keep_the_loop_busy(stand: Stand) -> None:
    structure = stand.changes.structure
    running = asyncio.create_task(stand.controller.run())
    for _ in range(10 * MOST_STEPS):
        await asyncio.sleep(0)
    assert not running.done()
    assert stand.pools.steps == 1
    assert stand.changes.structure == structure, "routers hear of changes only"
    await stand.controller.halt(0.0)
    await running


async def test_others_run_between_steps_that_each_ask_for_the_next(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps > MOST_STEPS:
            raise Spun
        stand.controller.wake()

    monkeypatch.setattr(stand.controller, "step", step)
    running = asyncio.create_task(stand.controller.run())
    for _ in range(5):
        await asyncio.sleep(0)
    assert 0 < steps < MOST_STEPS
    await stand.controller.halt(0.0)
    await running


async def test_a_blocked_pool_is_told_once_for_each_reason(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controlling, "BLOCKED_S", 0.0)
    stand.controller.step()
    stand.controller.step()
    assert stand.blocked() == ["a worker takes 2 GPUs, 1 of 1 are free"]
    stand.pools._gpus["p"] = ()
    stand.controller.step()
    stand.controller.step()
    assert stand.blocked()[1:] == ["a worker takes 2 GPUs, 0 of 0 are free"]


async def test_a_line_that_breaks_in_an_unexpected_way_is_taken_up_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    talks = 0

    async def talk(*_args: object) -> None:
        nonlocal talks
        talks += 1
        if talks < 3:
            raise ValueError("boom")
        raise linking.Refused("enough")

    async def announced(*_args: object) -> Announcement:
        return Announcement("p-1", "i", 1, 1, "serving", "127.0.0.1:1")

    monkeypatch.setattr(linking, "RETRY_S", 0.0)
    monkeypatch.setattr(linking.Link, "_talk", talk)
    monkeypatch.setattr(linking.Link, "_announced", announced)
    spec = WorkerSpec("p-1", "p", "scripted", "m", "", "/announce", "/log", "/cache")
    refused: list[str] = []
    link = linking.Link(Worker("p-1", "p", "m", spec, "/log"), NoLauncher(), lambda structural: None, refused.append)
    async with asyncio.timeout(30):
        await link.run()
    assert refused == ["enough"]
    assert len(caplog.records) == 2


async def test_a_worker_that_is_slow_to_drain_is_heard_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linking, "_verify", lambda *_args: None)
    spec = WorkerSpec("p-1", "p", "scripted", "m", "", "/announce", "/log", "/cache")
    worker = Worker("p-1", "p", "m", spec, "/log", cordoned=True)
    worker.enter(Stage.SERVING, "")
    worker.draining = True
    drains = 0

    class SlowToDrain:
        address = "127.0.0.1:1"

        async def info(self) -> WorkerInfo:
            return WorkerInfo("p-1", "i", 1)

        async def drain(self) -> None:
            nonlocal drains
            drains += 1
            await asyncio.sleep(3600)

        async def loads(self) -> AsyncIterator[Load]:
            for steps in range(1, 4):
                yield Load("i", 0.0, WorkerState.READY, steps=steps)
                await asyncio.sleep(0.01)

    assert worker.told_to_drain
    link = linking.Link(worker, NoLauncher(), lambda structural: None, lambda why: None)
    announced = Announcement("p-1", "i", 1, 1, "serving", "127.0.0.1:1")
    async with asyncio.timeout(20):
        await link._talk(SlowToDrain(), announced)  # type: ignore[arg-type]
    assert worker.load is not None
    assert (worker.load.steps, drains) == (3, 1)


async def test_a_step_that_fails_keeps_nothing_of_what_it_found(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = 0

    def drop() -> None:
        nonlocal dropped
        dropped += 1

    def targets() -> tuple[PoolTarget, ...]:
        raise RuntimeError("boom")

    monkeypatch.setattr(stand.controller._discovery, "drop", drop)
    monkeypatch.setattr(stand.pools, "targets", targets)
    with pytest.raises(RuntimeError):
        stand.controller.step()
    assert dropped == 1


async def test_nobody_is_cordoned_for_a_worker_that_left_meanwhile(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is busy for as long as that takes."""
    spec = WorkerSpec("p-1", "p", "scripted", "m", "", "/announce", "/log", "/cache")
    workers = stand.controller.workers
    workers["p-1"] = Worker("p-1", "p", "m", spec, "/log")
    cordon = stand.pools.cordon

    async def busy(worker_id: str) -> None:
        await cordon(worker_id)
        workers["p-1"] = Worker("p-1", "p", "m", spec, "/log")

    monkeypatch.setattr(stand.pools, "cordon", busy)
    routers: Any = None  # they are not asked
    operations = Operations(stand.controller, stand.pools, stand.events, Requests(), routers, stand.changes)
    with pytest.raises(NotFound, match="worker/p-1 is gone"):
        await operations.cordon("p-1")
    assert not workers["p-1"].cordoned
    assert not stand.controller._cordoned
    assert stand.pools._store.cordoned() == frozenset()


@pytest.mark.parametrize(
    ("router_id", "aborted", "cancelled"),
    [("r1", True, False), ("r1", False, False), ("", True, True), ("", False, False)],
)
async def test_what_may_run_on_is_not_told_as_cancelled(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, router_id: str, aborted: bool, cancelled: bool
) -> None:
    """Nobody who has joined answers for it: a gateway hears its worker's end of it, a router's goes on at the next."""
    requests = Requests()
    requests.report(router_id or "g1", [RequestView("q", "g1", "m", RequestPhase.DECODING, router_id=router_id)], [])
    routers = Routers(requests, stand.changes, lambda worker_id: None)
    operations = Operations(stand.controller, stand.pools, stand.events, requests, routers, stand.changes)

    async def abort(request_id: str) -> bool:
        return aborted

    monkeypatch.setattr(operations, "_abort", abort)
    if cancelled:
        assert (await operations.cancel("q")).changed
    else:
        with pytest.raises(RequestTimeout, match="request/q may run on"):
            await operations.cancel("q")
    assert [event.kind for event in stand.events.recent(9)] == ["request_cancelled"] * cancelled


async def test_workers_are_not_judged_by_a_silence_in_which_nobody_listened(
    stand: Stand, caplog: pytest.LogCaptureFixture
) -> None:
    """The control plane was paused for longer than a worker may be silent."""
    spec = WorkerSpec("p-1", "p", "scripted", "m", "", "/announce", "/log", "/cache")
    worker = stand.controller.workers["p-1"] = Worker("p-1", "p", "m", spec, "/log")
    worker.begin()
    worker.enter(Stage.SERVING, "")
    before = time.monotonic() - LOST_STOP_S - 40
    worker.health = Health(before, Life.ALIVE, stuck_at=before)
    worker.since_at = before
    stand.controller._stepped_at = before
    stand.controller.step()
    assert (worker.health.life, worker.stage) == (Life.ALIVE, Stage.SERVING)
    assert "stood still for 100.0 s" in caplog.text
    worker.health = Health(before, Life.ALIVE)
    stand.controller.step()
    assert worker.health.life is Life.LOST


async def test_what_was_done_before_the_first_step_was_no_standstill(
    stand: Stand, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gateways of an earlier control plane are looked for, and perhaps ended, before it."""
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 100.0)
    stand.controller.step()
    assert "stood still" not in caplog.text
