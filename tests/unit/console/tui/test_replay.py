"""The console on a recording, driven by keys, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from console.record.file_header import Session
from console.record.kinds import Kind, Record
from console.record.notes import End, Gap
from console.record.writer import RecordingWriter
from console.tui.render.look import RICH_LOOK
from console.tui.replay.app import ReplayApp, open_replay
from console.tui.screens.engine import EngineScreen
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.fleet import Event, Snapshot, WorkerPhase
from control_plane.contracts.step import StepFrame
from control_plane.contracts.wire.packed import packed
from tests.decisions import decision
from tests.snapshots.memory import NOW, request, snapshot, worker
from tests.unit.console.record.platform import base, state, steps

SPAN_S = 60
HOSTILE = "w\x1b[31m[red]\u202e"


def lost(at: float) -> Event:
    return Event(7, at, "worker_lost", "worker/smollm2-2", "no heartbeat for 5 s", "error")


def moment(second: float, name: str = "smollm2-2") -> Snapshot:
    """The second worker is lost from 20 to 40; requests come and go."""
    at = NOW + second
    two = worker(name, kv=0.4, at=at)
    if 20 <= second < 40:
        two = replace(two, phase=WorkerPhase.LOST, reason="no heartbeat")
    requests = (request(f"req-{second:.0f}", at=at),)
    return snapshot(at, workers=(worker("smollm2-1", kv=0.5, at=at), two), requests=requests, events=())


def make(path: Path, *, name: str = "smollm2-2", gap: tuple[int, int] = (50, 53)) -> Path:
    """A minute: a snapshot a second, twenty steps a second on the first worker, a lost worker, a lost platform."""
    session = Session("0.1.0", "cp-1", "~/.inferdeck", NOW, ("snapshots",))
    made = [step for start in range(1, 1160, 20) for step in steps(start, 20, request=f"r{start}", at=NOW + start / 20)]
    with RecordingWriter.open(path, session) as writer:
        writer.write([Record(Kind.SESSION, NOW, session.to_json())])
        for second in range(SPAN_S + 1):
            at = NOW + second
            records = []
            if not gap[0] < second < gap[1]:
                records.append(Record(Kind.SNAPSHOT, at, packed(moment(second, name))))
                mine = tuple(made[second * 20 : second * 20 + 20])
                start = base() if second in (0, gap[1]) else None
                if start is not None and second:
                    start = replace(start, step=mine[0].step - 1)
                frame = StepFrame(mine, state(mine[-1].step if mine else 0), start)
                records.append(Record(Kind.STEPS, at, packed(frame), "smollm2-1"))
            if second == 20:
                records.append(Record(Kind.EVENT, at, packed(lost(at))))
            if second == gap[0]:
                records.append(Record(Kind.GAP, at, Gap("socket closed").to_json()))
            writer.write(records, keyframe=second in (0, gap[1]))
        writer.write([Record(Kind.END, NOW + SPAN_S, End("interrupted").to_json())])
    return path


@pytest.fixture(scope="module")
def deck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("replay") / "incident.deck")


@dataclass
class Replayed:
    app: ReplayApp
    pilot: Pilot[int]
    now: list[float]

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
        await self.settle()

    async def command(self, line: str) -> None:
        self.app.command(line)
        await self.settle()

    async def pass_time(self, seconds: float) -> None:
        self.now[0] += seconds
        self.app.tick()
        await self.settle()
        self.app.paint()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(3):
            await self.pilot.pause()

    async def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(200):
            if condition():
                break
            self.app.tick()
            await self.pilot.pause()
        assert condition(), "it did not come to that"

    @property
    def second(self) -> float:
        """Recorded seconds since the first snapshot."""
        return self.app.live().replay.standing.elapsed  # type: ignore[union-attr]

    @property
    def shown(self) -> Snapshot:
        snapshot = self.app.view().snapshot
        assert snapshot is not None
        return snapshot

    @property
    def lines(self) -> list[str]:
        return [strip.text for strip in self.app.screen._compositor.render_strips(self.app.size)]

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines)


@asynccontextmanager
async def replayed(path: Path, size: tuple[int, int] = (80, 24), **options: Any) -> AsyncIterator[Replayed]:
    now = [1000.0]
    app = ReplayApp(
        open_replay(path, clock=lambda: now[0], **options), clock=lambda: now[0], look=RICH_LOOK, paint_s=0.0
    )
    async with app.run_test(size=size) as pilot:
        driven = Replayed(app, pilot, now)
        await driven.settle()
        yield driven


async def test_it_plays_and_says_that_it_is_a_replay(deck: Path) -> None:
    async with replayed(deck) as console:
        assert "replay 0:00/1:00" in console.lines[0]
        assert "incident.deck" in console.lines[0]
        assert "live" not in console.text
        await console.pass_time(5.0)
        assert console.shown == moment(5)
        assert "▶ replay 0:05/1:00" in console.lines[0]
        for command in (
            "requests",
            "pools",
            "events",
            "keys",
            "decisions",
            "explain req-5",
            "worker smollm2-1",
            "request req-5",
            "logs",
            "engine smollm2-1",
        ):
            await console.command(command)
            assert "replay 0:05/1:00" in console.lines[0], command
            assert "1:00" in console.lines[-2], command


async def test_pause_stands_still_and_play_goes_on(deck: Path) -> None:
    async with replayed(deck) as console:
        await console.pass_time(3.0)
        await console.press("p")
        await console.pass_time(30.0)
        assert console.second == 3.0
        assert "‖ replay 0:03" in console.lines[0]
        await console.press("p")
        await console.pass_time(1.5)
        assert console.second == 4.5
        assert console.shown == moment(4)


async def test_speed(deck: Path) -> None:
    async with replayed(deck, speed=2.0) as console:
        await console.pass_time(2.0)
        assert console.second == 4.0
        await console.press("greater_than_sign", "greater_than_sign")
        assert "8×" in console.lines[-2]
        await console.pass_time(1.0)
        assert console.second == 12.0
        await console.command("speed 0.25")
        await console.pass_time(4.0)
        assert console.second == 13.0
        await console.command("speed 99")
        assert ":speed takes a number from 0.25 to 16" in console.text


async def test_seeking_back_shows_what_was_then(deck: Path) -> None:
    async with replayed(deck, playing=False) as console:
        await console.press("full_stop", "full_stop", "full_stop")
        assert console.shown == moment(30)
        assert [event.kind for event in console.app.view().events] == ["worker_lost"]
        await console.press("comma", "comma")
        assert console.shown == moment(10)
        assert console.app.view().events == ()
        await console.command("seek 50%")
        assert console.shown == moment(30)
        await console.command("seek 2s")
        assert console.shown == moment(2)
        await console.command("seek soon")
        assert "is no time in a recording" in console.text
        assert console.shown == moment(2)


async def test_to_the_next_event_and_back(deck: Path) -> None:
    async with replayed(deck, playing=False) as console:
        await console.press("n")
        assert console.second == 20.0
        assert console.shown == moment(20)
        assert "worker/smollm2-2: no heartbeat for 5 s" in console.text
        await console.press("n")
        assert console.second == 50.0
        assert "not recorded from here: socket closed" in console.text
        await console.press("n")
        assert "no event after this" in console.text
        await console.press("N")
        assert console.second == 20.0


async def test_snapshot_by_snapshot(deck: Path) -> None:
    async with replayed(deck) as console:
        await console.pass_time(7.5)
        await console.press("right_curly_bracket")
        assert (console.second, console.shown) == (8.0, moment(8))
        await console.pass_time(5.0)
        assert console.second == 8.0
        await console.press("left_curly_bracket", "left_curly_bracket")
        assert (console.second, console.shown) == (6.0, moment(6))


async def test_a_gap_looks_as_it_did_live(deck: Path) -> None:
    async with replayed(deck, playing=False) as console:
        await console.command("seek 52s")
        assert not console.app.view().link.connected
        assert "no connection, 2s old" in console.lines[0]
        await console.command("seek 53s")
        assert console.app.view().link.connected
        assert console.shown == moment(53)


async def test_the_end_stands_still_and_plays_again(deck: Path) -> None:
    async with replayed(deck, at="end") as console:
        await console.pass_time(1.0)
        assert "the recording ends here" in console.text
        assert console.app.view().link.connected
        assert console.shown == moment(60)
        await console.pass_time(50.0)
        assert console.second == 60.0
        await console.press("p")
        await console.pass_time(2.0)
        assert (console.second, console.shown) == (2.0, moment(2))
        assert "the recording ends here" not in console.text


async def test_nothing_can_be_ordered(deck: Path) -> None:
    async with replayed(deck) as console:
        for key in ("ctrl+d", "ctrl+o", "ctrl+u", "ctrl+s", "ctrl+x"):
            await console.press(key)
            assert "this is a replay" in console.text
            assert console.app.screen.__class__.__name__ == "SystemScreen"
            console.app._notices.drop("refused")
        for line in ("drain smollm2-1", "cordon smollm2-1", "scale smollm2=3", "cancel req-1"):
            await console.command(line)
            assert f"no {line.split()[0]}: this is a replay" in console.text


async def test_logs_are_not_there(deck: Path) -> None:
    async with replayed(deck) as console:
        await console.command("logs worker/smollm2-1")
        await console.until(lambda: "logs are not in a recording" in console.text)


async def test_the_engine_screen_plays_pauses_and_follows_a_seek(deck: Path) -> None:
    async with replayed(deck, (100, 30)) as console:
        await console.pass_time(10.0)
        await console.command("engine smollm2-1")
        screen = console.app.screen
        assert isinstance(screen, EngineScreen)
        await console.until(lambda: screen.engine.steps.tape().last == 220)
        await console.pass_time(5.0)
        await console.until(lambda: screen.engine.steps.tape().last == 320)
        await console.press("p", "left")
        await console.until(lambda: screen.engine.moment is not None and screen.engine.moment.step.step == 319)
        await console.command("seek 4s")
        await console.until(lambda: screen.engine.steps.tape().last == 100)
        await console.until(lambda: screen.engine.moment is not None and screen.engine.moment.step.step == 100)
        assert console.app.view().paused
        assert screen.engine.steps.tape().at(100).complete  # type: ignore[union-attr]
        await console.command("seek 58s")
        await console.until(lambda: screen.engine.moment is not None and screen.engine.moment.step.step > 1100)
        assert "t trace" not in console.text, "what is refused is not offered"
        await console.press("t")
        assert "no change of the trace" in console.text


async def test_the_last_steps_before_a_gap_stay_in_sight(deck: Path) -> None:
    async with replayed(deck, (100, 30), at="52s", playing=False) as console:
        await console.command("engine smollm2-1")
        screen = console.app.screen
        assert isinstance(screen, EngineScreen)
        await console.until(lambda: screen.engine.error == "socket closed")
        assert screen.engine.steps.tape().last == 1020
        await console.until(lambda: "socket closed: these are the last steps known" in console.text)


async def test_help_names_the_keys_of_a_replay(deck: Path) -> None:
    async with replayed(deck, (100, 40)) as console:
        await console.press("question_mark")
        for words in ("play, or pause", "10 s back, forth", "slower, faster", "to the next, the previous event"):
            assert words in console.text
        assert "the platform stays" not in console.text


async def test_hostile_names_are_shown_literally(tmp_path: Path) -> None:
    async with replayed(make(tmp_path / "\x1b[2Ja.deck", name=HOSTILE)) as console:
        for command in ("workers", "pools", "events", "requests"):
            await console.command(command)
            assert "\x1b" not in console.text
            assert "\u202e" not in console.text
        await console.command("workers")
        assert "[red]" in console.text


@pytest.mark.parametrize("size", [(80, 24), (60, 16), (160, 48), (40, 10)])
async def test_every_size(deck: Path, size: tuple[int, int]) -> None:
    async with replayed(deck, size, at="25s") as console:
        assert all(len(line) == size[0] for line in console.lines)
        assert ("replay 0:25" in console.lines[0]) == (size[0] >= 60)


async def test_a_recording_without_a_snapshot_is_told(tmp_path: Path) -> None:
    session = Session("0.1.0", "cp-1", "~", NOW)
    with RecordingWriter.open(tmp_path / "a.deck", session) as writer:
        writer.write([Record(Kind.SESSION, NOW, session.to_json())])
    with pytest.raises(InvalidRequest, match="holds no snapshot"):
        open_replay(tmp_path / "a.deck", clock=lambda: 0.0)


async def test_decisions_are_played_back(tmp_path: Path) -> None:
    path = make(tmp_path / "decided.deck", gap=(90, 91))
    first, second = decision(1, "req-5"), decision(2, "req-5", attempt=2, chosen="smollm2-2")
    with RecordingWriter.open(path, Session("0.1.0", "cp-1", "~/.inferdeck", NOW + 61, ("decisions",))) as writer:
        for at, made in ((62.0, first), (70.0, second)):
            records = [Record(Kind.DECISION, NOW + at, packed(made), made.request_id)]
            writer.write([Record(Kind.SNAPSHOT, NOW + at, packed(moment(5))), *records], keyframe=True)
        writer.write([Record(Kind.END, NOW + 80, End("interrupted").to_json())])
    async with replayed(path, size=(160, 48)) as console:
        await console.command("decisions")
        await console.until(lambda: "0 sent" in console.text)
        await console.command("seek 65s")
        await console.until(lambda: "1 sent" in console.text)
        await console.press("enter")
        await console.until(lambda: "attempt 1 ▶ smollm2-1" in console.text)
        assert "attempt 2" not in console.text
        await console.pass_time(10.0)
        await console.until(lambda: console.text.count("went here") == 2)
        await console.press("g")
        await console.until(lambda: "attempt 2 ▶ smollm2-2" in console.text)
        await console.command("request req-5")
        await console.until(lambda: "before that: smollm2-1" in console.text)
        await console.command("seek 10s")
        await console.until(lambda: "no decision about request/req-5 is recorded up to here" in console.text)
