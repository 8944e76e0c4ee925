"""What is wanted, what happened, and who is told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from control_plane.contracts.errors import Conflict, NotFound, SettingsError
from control_plane.contracts.fleet import Event
from control_plane.fleet import events as module
from control_plane.fleet.changes import Changes
from control_plane.fleet.events import RECENT, Events
from control_plane.fleet.launcher.local import same_work
from control_plane.fleet.pools import Pools
from control_plane.fleet.state import PoolTarget
from control_plane.settings import Home, PoolSettings
from control_plane.store import Database, DesiredState, EventLog


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database.open("", tmp_path / "x.db")
    yield database
    database.close()


CPU = PoolSettings(name="cpu", model="small", engine_args={"a": 1})
GPU = PoolSettings(name="gpu", model="big", replicas=1, tensor_parallel=2, gpus=(0, 1, 2, 3, 4))


def pools(database: Database, tmp_path: Path, *settings: PoolSettings) -> Pools:
    return Pools(settings or (CPU, GPU), Home(tmp_path, cache=tmp_path / "cache"), DesiredState(database))


def test_targets_are_the_settings_with_what_operators_asked_for(database: Database, tmp_path: Path) -> None:
    wanted = pools(database, tmp_path)
    assert wanted.targets() == (PoolTarget("cpu", 2), PoolTarget("gpu", 1, 2, (0, 1, 2, 3, 4)))
    asyncio.run(wanted.scale("cpu", 5))
    assert wanted.targets()[0] == PoolTarget("cpu", 5)
    assert pools(database, tmp_path).targets()[0] == PoolTarget("cpu", 5), "it outlives the process"


def test_a_worker_of_a_pool_that_is_no_more_may_not_hang_for_ever(database: Database, tmp_path: Path) -> None:
    wanted = pools(database, tmp_path, replace(CPU, stall_timeout_s=77.0))
    assert (wanted.stall_timeout_s("cpu"), wanted.stall_timeout_s("gone")) == (77.0, 300.0)


def test_what_a_pool_cannot_have_is_refused_with_the_most_it_can(database: Database, tmp_path: Path) -> None:
    wanted = pools(database, tmp_path)
    wanted.check("gpu", 2)
    with pytest.raises(Conflict, match="3 replicas of 2 GPUs each need 6, pool gpu has 5") as caught:
        wanted.check("gpu", 3)
    assert caught.value.hint == "inferdeck scale gpu=2"
    with pytest.raises(NotFound, match="there is no pool 'x'; there are: cpu, gpu"):
        wanted.check("x", 1)
    with pytest.raises(Conflict, match="0 to 1000"):
        asyncio.run(wanted.scale("cpu", 1001))
    assert wanted.replicas("cpu") == 2


def test_a_spec_says_all_that_the_settings_say(database: Database, tmp_path: Path) -> None:
    spec = pools(database, tmp_path).spec("gpu", "gpu-1", (2, 3))
    assert (spec.worker_id, spec.pool, spec.model, spec.gpus, spec.tensor_parallel) == (
        "gpu-1",
        "gpu",
        "big",
        [2, 3],
        2,
    )
    assert spec.announce_path == str(tmp_path / "run" / "workers" / "gpu-1.json")
    assert spec.log_path == str(tmp_path / "logs" / "worker-gpu-1.log")
    assert (spec.kv_bytes, spec.cache_dir) == (512 << 20, str(tmp_path / "cache"))


def test_a_worker_is_wanted_while_its_pool_would_start_the_same(database: Database, tmp_path: Path) -> None:
    wanted = pools(database, tmp_path)
    spec = wanted.spec("gpu", "gpu-1", (2, 3))
    assert wanted.wants(spec, same_work)
    assert not wanted.wants(None, same_work)
    assert not wanted.wants(replace(spec, pool="gone"), same_work)
    assert not pools(database, tmp_path, replace(GPU, max_context=99)).wants(spec, same_work)
    written = {"gpu": {"": "c.toml:2"}}
    moved = Pools((CPU, GPU), Home(tmp_path, cache=tmp_path / "cache"), DesiredState(database), "auto", written)
    assert moved.spec("gpu", "gpu-1").written == {"": "c.toml:2"}
    assert moved.wants(spec, same_work), "a line more in the file is no other worker"


async def test_changes_wake_whoever_waits_and_tell_structure_apart() -> None:
    changes = Changes()
    revision, structure = changes.revision, changes.structure
    assert not await changes.after(revision, 0.01)
    waiting = asyncio.create_task(changes.after(revision, 30))
    structural = asyncio.create_task(changes.after(structure, 30, structural=True))
    await asyncio.sleep(0)
    changes.bump()
    assert await waiting
    assert not structural.done()
    changes.bump(structural=True)
    assert await structural
    assert await changes.after(revision, 30), "what has changed already needs no waiting"


async def test_events_are_numbered_on_over_restarts_and_read_from_anywhere(database: Database) -> None:
    changes = Changes()
    events = Events(EventLog(database), changes)
    before = changes.revision
    for number in range(RECENT + 10):
        events.record("kind", "worker/w", f"message {number}")
    assert changes.revision > before
    assert [event.seq for event in events.recent(2)] == [RECENT + 9, RECENT + 10]
    assert [event.seq for event in await events.since(RECENT + 8)] == [RECENT + 9, RECENT + 10]
    assert len(await events.since(0)) == RECENT + 10, "those beyond memory come from the store"
    await events.close()
    again = Events(EventLog(database), Changes())
    again.record("kind", "worker/w", "next")
    assert again.recent(1)[0].seq == RECENT + 11
    assert [event.message for event in again.recent(2)] == [f"message {RECENT + 9}", "next"]
    await again.close()


class AwayLog(EventLog):
    """Its database does not answer ``away`` times, or while that is negative."""

    def __init__(self, database: Database, away: int) -> None:
        super().__init__(database)
        self.away = away

    def append(self, event: Event) -> None:
        if self.away:
            self.away -= 1
            raise OperationalError("insert", {}, Exception("connection refused"))
        super().append(event)


async def test_events_outlive_a_database_that_is_restarted(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.001)
    events = Events(AwayLog(database, 12), Changes())
    for word in ("one", "two"):
        events.record("kind", "s", word)
    await asyncio.wait_for(events._unsaved.join(), 20)
    assert [event.message for event in EventLog(database).since(0)] == ["one", "two"]
    await events.close()
    await asyncio.wait_for(events._unsaved.join(), 1)


async def test_a_database_that_stays_away_keeps_nobody_waiting(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_UNSAVED", 3)
    monkeypatch.setattr(module, "_UNSAVED_WAIT_S", 0.01)
    events = Events(AwayLog(database, -1), Changes())
    for number in range(RECENT + 5):
        events.record("kind", "s", str(number))
    assert events._unsaved.qsize() == 3
    assert await events.since(0) == ()
    assert len(await events.since(10)) == RECENT - 5
    await asyncio.wait_for(events.close(), 5)


async def test_followers_get_every_event_once(database: Database) -> None:
    events = Events(EventLog(database), Changes())
    events.record("kind", "s", "one")
    following = events.follow(0)
    assert (await anext(following)).message == "one"
    coming = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0)
    events.record("kind", "s", "two")
    events.record("kind", "s", "three")
    assert [(await coming).message, (await anext(following)).message] == ["two", "three"]
    await events.close()


@pytest.mark.parametrize(
    ("visible", "message", "hint"),
    [
        ("", 'gpus = "auto" of pool gpu: this machine shows no GPU', "set gpus = []"),
        ("0,1,2", "replicas x tensor_parallel need 4 GPUs, this machine shows 3", "at most 3"),
    ],
)
def test_all_gpus_there_are_must_be_enough(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str, message: str, hint: str
) -> None:
    auto = replace(GPU, gpus="auto", replicas=2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(SettingsError) as caught:
        pools(database, tmp_path, auto)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    assert pools(database, tmp_path, auto).targets() == (PoolTarget("gpu", 2, 2, (0, 1, 2, 3)),)
