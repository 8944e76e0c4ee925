"""A replay at some time shows what a console showed that listened at that time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.record.reader import RecordingReader
from console.record.recording import Recording
from console.tui.live.board import Board, View
from console.tui.replay.past import board_at, take
from control_plane.contracts.errors import Unavailable
from control_plane.contracts.fleet import Event, Snapshot, WorkerPhase
from tests.snapshots.memory import NOW, snapshot, worker
from tests.unit.console.record.platform import Platform
from tests.unit.console.record.rig import hurry, recording

PLACE = "a.deck"
LOST_AT, BACK_AT = 60, 70


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


def told(step: int) -> Snapshot:
    """Half a second a step; a worker is lost at 20 and back at 30."""
    at = NOW + step / 2
    two = worker("smollm2-2", kv=0.4 + step / 500, at=at)
    if 20 <= step < 30:
        two = replace(two, phase=WorkerPhase.LOST, heartbeat_unix=NOW + 9, reason="no heartbeat")
    happened = () if step < 20 else (Event(9, NOW + 10, "worker_lost", "worker/smollm2-2", "no heartbeat", "error"),)
    return snapshot(at, workers=(worker("smollm2-1", kv=0.5, at=at), two), revision=step + 1, events=happened)


async def record(path: Path, steps: int) -> list[tuple[float, View]]:
    """What a live console showed a quarter of a second after each thing that it heard."""
    live, shown = Board(PLACE), []
    platform = Platform()
    async with recording(path, platform) as driven:
        for step in range(steps):
            now = driven.now[0]
            if step == LOST_AT:
                platform.away = [Unavailable("connection refused")]
                platform.snapshots.put_nowait(Unavailable("socket closed"))
                await driven.until(lambda: driven.recorder.tally.gaps == 1 and platform.connections == 2)
                live.lost("socket closed")
            if LOST_AT <= step < BACK_AT:
                driven.now[0] += 0.5
            else:
                live.heard(told(step), now)
                await driven.hear(told(step))
            shown.append((now + 0.25, replace_history(live.view(now + 0.25))))
    return shown


def replace_history(view: View) -> View:
    """The curves as they are at this moment: the history itself goes on."""
    curves = {
        (worker.id, span_s): tuple(view.history.window(worker.id, view.now_unix, span_s, 60))
        for worker in view.workers
        for span_s in (30.0, 120.0)
    }
    return replace(view, history=curves)  # type: ignore[arg-type]  # to be compared only


async def test_after_a_seek_and_while_playing(tmp_path: Path) -> None:
    shown = await record(tmp_path / "a.deck", 90)
    with RecordingReader.open(tmp_path / "a.deck") as reader:
        found = Recording(reader)
        for at, view in shown[::11]:
            board, _ = board_at(found, PLACE, at)
            assert replace_history(board.view(at)) == view
        board, cursor = board_at(found, PLACE, found.first_unix)
        for at, view in shown:
            for entry in cursor.until(at):
                take(board, entry, found)
            seen = board.view(at)
            assert (seen.snapshot, seen.link, seen.rates) == (view.snapshot, view.link, view.rates)
        assert [view.link.connected for _, view in shown] == [
            not LOST_AT <= step < BACK_AT for step in range(len(shown))
        ]


async def test_a_long_way_back_costs_only_the_curves_detail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = await record(tmp_path / "a.deck", 90)
    monkeypatch.setattr("console.tui.replay.past.WHOLE_S", 20.0)
    with RecordingReader.open(tmp_path / "a.deck") as reader:
        heard: list[Any] = []
        monkeypatch.setattr(Board, "heard", lambda self, *more, then=Board.heard: (heard.append(1), then(self, *more)))
        at, view = shown[-1]
        board, _ = board_at(Recording(reader), PLACE, at)
        assert len(heard) < 45
        now = board.view(at)
    assert (now.snapshot, now.rates, now.link, now.events) == (view.snapshot, view.rates, view.link, view.events)
