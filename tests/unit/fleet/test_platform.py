"""What the control plane does by the clock."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from control_plane.contracts.conversation import Item, Turn, TurnEnd, TurnStatus
from control_plane.contracts.errors import NotFound
from control_plane.fleet import platform as module
from control_plane.fleet.members import MemberProcess
from control_plane.fleet.platform import Platform
from control_plane.settings import Home, PoolSettings, RouterSettings, Settings
from control_plane.store import Conversations, Database, DesiredState, Turns
from control_plane.store.sweep import KEEP_RESPONSES_S, LONGEST_TURN_S
from tests.unit.fleet.test_controller import NoLauncher
from tests.unit.gateway.fakes import until


def begin(turns: Turns, name: str, age_s: float, conversation: str = "") -> None:
    item = Item(f"msg_{name}", "user", "hi")
    created = time.time() - age_s
    turns.begin(Turn(name, "acme", "chat", "m", "gone", f"answer_{name}", created, [item], conversation))


async def test_what_grows_old_while_it_runs_is_closed_and_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HI03: 24 hours for a turn, 30 days for a response, however long ago the control plane was started."""
    monkeypatch.setattr(module, "SWEEP_S", 0.05)
    home = Home(tmp_path)
    home.create()
    database = Database.open("", home.database)
    turns = Turns(database)
    Conversations(database).create("conv_1", "acme", {}, [])
    platform = Platform(Settings(pools=()), home, database, NoLauncher())
    swept = 0

    def sweep(*args: object) -> int:
        nonlocal swept
        closed = real(*args)  # type: ignore[arg-type]
        swept += 1
        return closed

    real = module.sweep
    monkeypatch.setattr(module, "sweep", sweep)
    platform._tasks.keep(platform._sweep, "sweep")
    await until(lambda: swept >= 1)
    begin(turns, "long", LONGEST_TURN_S + 60, "conv_1")
    begin(turns, "young", LONGEST_TURN_S - 600, "conv_1")
    begin(turns, "old", KEEP_RESPONSES_S + 60)
    turns.end("old", TurnEnd(TurnStatus.COMPLETED, "said"))
    before = swept
    await until(lambda: swept >= before + 2)
    assert [turns.get("acme", name).status for name in ("long", "young")] == ["failed", "in_progress"]
    with pytest.raises(NotFound):
        turns.get("acme", "old")
    await platform._tasks.cancel()
    await platform.events.close()
    database.close()


async def test_a_shutdown_ends_the_care_for_a_router_that_has_just_crashed(tmp_path: Path) -> None:
    """It would be begun again, and nobody would stop it."""
    home = Home(tmp_path)
    home.create()
    database = Database.open("", home.database)
    platform = Platform(Settings(pools=(), router=RouterSettings(replicas=1)), home, database, NoLauncher())
    made = []

    def spawn(member: MemberProcess) -> None:
        made.append(member.id)
        raise OSError("it crashes")

    platform.router_processes._spawn = spawn  # type: ignore[method-assign, assignment]
    platform.router_processes.start()
    await until(lambda: made)
    assert not any(router.pid for router in platform.router_processes.all())
    await platform._shut_down(0.0)
    assert not platform.router_processes._tasks._running
    database.close()


async def test_a_number_of_replicas_that_outlived_a_restart_is_told(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.create()
    database = Database.open("", home.database)
    settings = Settings(pools=(PoolSettings(name="a", replicas=2), PoolSettings(name="b", replicas=2)))
    DesiredState(database, "").set_replicas("b", 3, configured=2)
    platform = Platform(settings, home, database, NoLauncher())
    platform._tell_of_scales()
    told = [event for event in platform.events.recent(10) if event.kind == "scaled"]
    assert [(event.subject, event.message) for event in told] == [
        ("pool/b", "3 replicas, as it was scaled to; its settings say 2")
    ]
    await platform.events.close()
    database.close()
