"""What the screens look like, on fixed data. After a wanted change: ``pytest tests/snapshots --snapshot-update``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from console.tui.app import ConsoleApp
from console.tui.messages import Heard, LinkLost, Timed
from console.tui.render.look import PLAIN, RICH_LOOK, SIXTEEN_COLOURS, Look
from console.tui.screens.confirm import ConfirmScreen
from control_plane.contracts.fleet import DrainProgress, Latency, Pool, RouterView, Snapshot, WorkerPhase, WorkerView
from tests.decisions import decision, moved, waited
from tests.snapshots.memory import NOW, MemoryPlatform, snapshot, timeline_of
from tests.snapshots.settled import settled

SMALL, MIDDLE, LARGE = (80, 24), (100, 30), (160, 48)
LOG = b"".join(
    b"INFO 11-30 04:50:%02d [core.py:71] engine step, [bold]not markup[/bold] \x1b[31mred\n" % n for n in range(60)
)

DECIDED = (
    decision(1, "req-1384"),
    waited(2, "req-1388", waited_s=0.2),
    decision(3, "req-1388", looks=4, waited_s=0.4),
    decision(4, "req-1386", profile="least_load"),
    moved(5, "req-1388"),
)

Compare = Callable[..., bool]


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def seen(
    compare: Compare,
    size: tuple[int, int],
    *commands: str,
    keys: tuple[str, ...] = (),
    workers: int = 2,
    requests: int = 8,
    look: Look = RICH_LOOK,
    change: Callable[[Snapshot], Snapshot] = lambda moment: moment,
    then: Callable[[ConsoleApp, MemoryPlatform, list[float]], None] | None = None,
    platform: MemoryPlatform | None = None,
) -> bool:
    """A console that has listened for two minutes, at the end of commands and keys."""
    platform = platform or MemoryPlatform(log=LOG)
    clock = [1000.0]
    app = ConsoleApp(platform, platform, look=look, paint_s=3600.0, silence_s=1e6, clock=lambda: clock[0])

    async def prepare(pilot: Pilot[Any]) -> None:
        for step in range(240):
            clock[0] += 0.5
            app.on_heard(Heard(change(snapshot(NOW + step / 2, workers, requests))))
        for _ in range(2):  # what is behind a dialog stands still: it has to be laid out before
            app.paint()
            await settled(pilot)
        for command in commands:
            app.command(command)
            await settled(pilot)
        for key in keys:
            await pilot.press(key)
        await settled(pilot)
        if then is not None:
            then(app, platform, clock)
        await settled(pilot, lambda: not (isinstance(app.screen, ConfirmScreen) and app.screen.asking))
        app.paint()
        await settled(pilot)

    return compare(app, terminal_size=size, run_before=prepare)


def sick(moment: Snapshot) -> Snapshot:
    first, second, third, fourth = moment.workers
    now = moment.taken_unix
    workers = (
        first,
        replace(second, phase=WorkerPhase.LOST, heartbeat_unix=now - 12, reason="no heartbeat", restarts=2),
        replace(third, cordoned=True, draining=True),
        replace(
            fourth, phase=WorkerPhase.STARTING, load=None, latency=None, phase_since_unix=now - 4, reason="loading"
        ),
    )
    return replace(moment, workers=workers, pools=(Pool("smollm2", "smollm2-135m", "vllm", 4, 2, 4),))


def routed(moment: Snapshot) -> Snapshot:
    """Three routers that are processes of their own: one is starting again, one stops."""
    now = moment.taken_unix
    latency = Latency(60, 240, 0.21, 1.9, 8000, 0.046, 0.09)
    up = RouterView("r1", 41, "127.0.0.1:9001", True, now - 3700, now - 1, 5, 1, 840, latency, 212.0, 64 << 20, 31.0)
    return replace(
        moment,
        routers=(
            up,
            RouterView("r2", 0, "127.0.0.1:9002", ready=False),
            replace(up, id="r3", pid=43, address="127.0.0.1:9003", ready=False, draining=True),
        ),
    )


def unused(worker: WorkerView) -> WorkerView:
    assert worker.load is not None
    load = replace(worker.load, running=0, waiting=0, kv_usage=0.0, used_blocks=0, tokens_per_s=0.0, prompt_tokens=0)
    return replace(worker, load=load, in_flight=0, latency=None)


def lose(app: ConsoleApp, platform: MemoryPlatform, clock: list[float]) -> None:
    clock[0] += 42
    app.on_link_lost(LinkLost("cannot reach the control plane at 127.0.0.1:8090: connection refused"))


def drain(app: ConsoleApp, platform: MemoryPlatform, clock: list[float]) -> None:
    platform.drain_queue.put_nowait(DrainProgress("smollm2-1", 3, ("req-1388", "req-138a", "req-138c")))


@pytest.mark.parametrize("size", [SMALL, MIDDLE, LARGE])
def test_system(snap_compare: Compare, size: tuple[int, int]) -> None:
    workers = {SMALL: 2, MIDDLE: 3, LARGE: 8}[size]
    assert seen(snap_compare, size, workers=workers, requests=4 * workers)


def test_system_that_hurts(snap_compare: Compare) -> None:
    assert seen(snap_compare, MIDDLE, workers=4, change=sick)


def test_system_before_the_first_request(snap_compare: Compare) -> None:
    def idle(moment: Snapshot) -> Snapshot:
        [gateway] = moment.gateways
        unasked = replace(gateway, requests_total=0, responses={}, latency=None, tokens_per_s=0.0, in_flight=0)
        return replace(moment, gateways=(unasked,), requests=(), workers=tuple(map(unused, moment.workers)))

    assert seen(snap_compare, SMALL, change=idle)


def test_system_on_sixteen_colours_and_few_glyphs(snap_compare: Compare) -> None:
    assert seen(snap_compare, SMALL, look=Look(SIXTEEN_COLOURS, PLAIN, "ansi-dark"))


def test_system_without_a_connection(snap_compare: Compare) -> None:
    assert seen(snap_compare, SMALL, then=lose)


def test_system_paused_with_marks(snap_compare: Compare) -> None:
    assert seen(snap_compare, SMALL, keys=("space", "p"))


@pytest.mark.parametrize("size", [SMALL, MIDDLE, LARGE])
def test_requests(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, "requests", requests=30)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_request(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, "request req-1389")


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_request_with_what_its_engine_steps_say(snap_compare: Compare, size: tuple[int, int]) -> None:
    def told(app: ConsoleApp, platform: MemoryPlatform, clock: list[float]) -> None:
        [shown] = [each for each in app.view().snapshot.requests if each.id == "req-1389"]
        app.on_timed(Timed("req-1389", timeline_of(shown)))

    assert seen(snap_compare, size, "request req-1389", then=told)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_worker(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, "worker smollm2-1")


@pytest.mark.parametrize("size", [SMALL, MIDDLE, LARGE])
def test_pools_with_routers_of_their_own(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, "pools", change=routed)


def test_system_with_routers_of_their_own(snap_compare: Compare) -> None:
    assert seen(snap_compare, MIDDLE, change=routed)


def test_pools(snap_compare: Compare) -> None:
    assert seen(snap_compare, MIDDLE, "pools")


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_keys(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, "keys")


def test_events(snap_compare: Compare) -> None:
    assert seen(snap_compare, SMALL, "events")


def test_logs(snap_compare: Compare) -> None:
    assert seen(snap_compare, SMALL, "logs worker/smollm2-1")


def test_confirm_drain(snap_compare: Compare) -> None:
    assert seen(snap_compare, SMALL, keys=("ctrl+d",))


def test_confirm_several(snap_compare: Compare) -> None:
    assert seen(snap_compare, MIDDLE, keys=("space", "space", "space", "ctrl+d"), workers=3)


def test_drain_under_way(snap_compare: Compare) -> None:
    assert seen(snap_compare, SMALL, keys=("ctrl+d", "y"), then=drain)


def test_scale(snap_compare: Compare) -> None:
    assert seen(snap_compare, SMALL, keys=("ctrl+s",))


def test_help(snap_compare: Compare) -> None:
    assert seen(snap_compare, MIDDLE, "help")


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_decisions(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, "decisions", platform=MemoryPlatform(decided=DECIDED))


@pytest.mark.parametrize("size", [SMALL, MIDDLE, LARGE])
def test_explain(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, "explain req-1388", platform=MemoryPlatform(decided=DECIDED))


@pytest.mark.parametrize("size", [MIDDLE, LARGE])
def test_a_request_with_why_it_is_there(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert seen(snap_compare, size, "request req-1388", platform=MemoryPlatform(decided=DECIDED))


def test_the_shapes_in_the_help(snap_compare: Compare) -> None:
    assert seen(snap_compare, SMALL, "help", keys=("pagedown",) * 8)


def test_policy(snap_compare: Compare) -> None:
    assert seen(snap_compare, SMALL, "policy")


def test_a_worker_that_is_drained(snap_compare: Compare) -> None:
    def drained(moment: Snapshot) -> Snapshot:
        first, second = moment.workers
        assert second.load is not None
        empty = replace(second.load, running=0, waiting=0, kv_usage=0.0, used_blocks=0, tokens_per_s=0.0)
        left = replace(second, cordoned=True, draining=True, in_flight=0, load=empty)
        return replace(moment, workers=(first, left))

    assert seen(snap_compare, SMALL, change=drained)


def test_command_line(snap_compare: Compare) -> None:
    assert seen(snap_compare, SMALL, keys=("colon", "d", "r", "tab"))


def test_too_small(snap_compare: Compare) -> None:
    assert seen(snap_compare, (40, 10))
