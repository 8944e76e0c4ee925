from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from control_plane.contracts.errors import Conflict, InvalidRequest, WorkerLost
from control_plane.contracts.worker import WorkerState
from tests.scripted_worker import scripted_spec
from workers.calls import CallTable
from workers.engine.base import EngineLoad
from workers.engine.scripted import ScriptedEngine
from workers.sleeper import Sleeper
from workers.status import WorkerStatus

READY, DRAINING, FAILED = WorkerState.READY, WorkerState.DRAINING, WorkerState.FAILED
ASLEEP, WAKING = WorkerState.ASLEEP, WorkerState.WAKING


class Made:
    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.status = WorkerStatus()
        self.status.move(READY)
        self.states: list[WorkerState] = []
        self.status.listen(self.states.append)
        self.sleeper = Sleeper("w1", engine, self.status, CallTable(engine.abort))


def scripted(directory: Path, **fields: Any) -> Made:
    return Made(ScriptedEngine(scripted_spec(directory, **fields)))


async def test_there_and_back(tmp_path: Path) -> None:
    made = scripted(tmp_path, sleep_s=0.01, wake_s=0.02)
    slept = await made.sleeper.sleep(0)
    assert (slept.changed, made.sleeper.level, made.status.state) == (True, 1, ASLEEP)
    assert slept.took_s >= 0.01
    assert not (await made.sleeper.sleep(1)).changed
    woke = await made.sleeper.wake()
    assert (woke.changed, made.sleeper.level, made.status.state) == (True, 0, READY)
    assert woke.took_s >= 0.02
    assert not (await made.sleeper.wake()).changed
    assert made.states == [ASLEEP, WAKING, READY]


async def test_what_was_drained_is_so_when_it_wakes(tmp_path: Path) -> None:
    made = scripted(tmp_path)
    made.status.move(DRAINING)
    await made.sleeper.sleep(2)
    await made.sleeper.wake()
    assert made.states == [DRAINING, ASLEEP, WAKING, DRAINING]


async def test_a_check_changes_nothing(tmp_path: Path) -> None:
    made = scripted(tmp_path)
    assert (await made.sleeper.sleep(2, check=True)).changed
    assert (made.sleeper.level, made.states) == (0, [])


async def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    made = scripted(tmp_path)
    with pytest.raises(InvalidRequest, match="no level 3"):
        await made.sleeper.sleep(3)
    await made.sleeper.sleep(1)
    with pytest.raises(Conflict, match="sleeps at level 1") as deeper:
        await made.sleeper.sleep(2)
    assert deeper.value.hint == "inferdeck wake w1"
    await made.sleeper.wake()
    made.status.move(WorkerState.STOPPING)
    with pytest.raises(Conflict, match="the worker is stopping"):
        await made.sleeper.sleep(1)
    assert made.states == [ASLEEP, WAKING, READY, WorkerState.STOPPING]


async def test_what_runs_in_the_engine_counts_whoever_sent_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = scripted(tmp_path)
    monkeypatch.setattr(made.engine, "load", lambda: EngineLoad(running=2, waiting=1))
    with pytest.raises(Conflict, match="3 requests run here") as busy:
        await made.sleeper.sleep(1, check=True)
    assert busy.value.hint == "inferdeck drain w1"


async def test_an_engine_that_cannot_says_so(tmp_path: Path) -> None:
    class Awake:
        name = "insomniac"

        def abort(self, call: int) -> None: ...

    with pytest.raises(Conflict, match="insomniac, which cannot sleep"):
        await Made(Awake()).sleeper.sleep(1)
    made = scripted(tmp_path)
    made.engine._nap.problem = "sleep needs a bed"
    with pytest.raises(Conflict, match="sleep needs a bed"):
        await made.sleeper.wake()


async def test_what_an_engine_refuses_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any) -> None:
        raise Conflict("not now")

    made = scripted(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(made.engine, "sleep", refuse)
        with pytest.raises(Conflict, match="not now"):
            await made.sleeper.sleep(1)
    assert (made.sleeper.level, made.status.state) == (0, READY)
    await made.sleeper.sleep(1)
    with monkeypatch.context() as patch:
        patch.setattr(made.engine, "wake", refuse)
        with pytest.raises(Conflict, match="not now"):
            await made.sleeper.wake()
    assert (made.sleeper.level, made.status.state) == (1, ASLEEP)
    await made.sleeper.wake()
    assert (made.sleeper.level, made.status.state) == (0, READY)


@pytest.mark.parametrize("way", ["sleep", "wake"])
async def test_one_that_breaks_on_its_way_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Its memory may be half there: nobody may take it for ready, nor for one that can be woken."""

    async def fail(*_: Any) -> None:
        raise OSError("no memory")

    made = scripted(tmp_path)
    monkeypatch.setattr(made.engine, way, fail)
    if way == "wake":
        await made.sleeper.sleep(1)
    with pytest.raises(OSError, match="no memory"):
        await (made.sleeper.sleep(1) if way == "sleep" else made.sleeper.wake())
    assert made.states == ([ASLEEP, FAILED] if way == "sleep" else [ASLEEP, WAKING, FAILED])
    assert "no memory" in made.status.reason
    for again in (made.sleeper.sleep(1), made.sleeper.wake()):
        with pytest.raises(WorkerLost, match="the engine is dead"):
            await again
    assert made.status.state is FAILED


async def test_it_goes_on_when_whoever_asked_is_gone(tmp_path: Path) -> None:
    made = scripted(tmp_path, sleep_s=0.05)
    asking = asyncio.create_task(made.sleeper.sleep(1))
    await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await made.sleeper.wake()
    assert (made.states, made.sleeper.level) == ([ASLEEP, WAKING, READY], 0)


async def test_what_fails_when_whoever_asked_is_gone_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    began, go_on, failed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def fail(*_: Any) -> None:
        began.set()
        await go_on.wait()
        raise OSError("no memory")

    made = scripted(tmp_path)
    monkeypatch.setattr(made.engine, "sleep", fail)
    made.status.listen(lambda state: failed.set() if state is FAILED else None)
    asking = asyncio.create_task(made.sleeper.sleep(1))
    await began.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    go_on.set()
    await failed.wait()
    await asyncio.sleep(0)
    (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert record.__dict__["task"] == "sleep"
    assert "no memory" in str((record.exc_info or (None, None))[1])
