"""What a lesson says of the platform that it runs on: before it is there, while it is put back, when it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.readiness import Readiness, Step
from console.tui.learn.lesson_screen import LessonScreen
from console.tui.learn.pin import Pin
from console.tui.learn.reset_screen import ResetScreen
from console.tui.messages import Heard
from console.tui.order import Verb
from control_plane.contracts.errors import Unavailable
from lessons.progress import State
from tests.snapshots.lesson_stage import LABEL, LessonStage
from tests.unit.console.tui.learn.harness import TO_THE_FIRST_QUESTION, lesson, to_the_experiment, two_workers


async def test_the_label_is_there_at_all_times(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        assert LABEL in seen.lines[0]
        for line in ("requests", "workers", "events", "engine w-1", "worker w-1"):
            await seen.command(line)
            assert not isinstance(seen.app.screen, LessonScreen)
            assert LABEL in seen.lines[0]
            await seen.press("escape")
            assert isinstance(seen.app.screen, LessonScreen)
        await seen.press("question_mark")
        assert LABEL in seen.lines[0]


async def test_before_there_is_a_platform_it_says_on_what_it_will_run(tmp_path: Path) -> None:
    stage = LessonStage()
    stage.gate.clear()
    async with lesson(tmp_path, stage=stage, started=False) as seen:
        await seen.until(lambda: "its platform starts" in seen.text)
        assert "the simulator" in seen.lines[0]
        steps = (Step("worker/w-1", True, "ready in 1.2 s"), Step("gateway/g1", False, "starting"))
        seen.app.readying(Readiness(False, steps))
        await seen.until(lambda: "✓ worker/w-1 ready in 1.2 s" in seen.said)
        assert "◌ gateway/g1 starting" in seen.said
        await seen.press("right", "enter", "h", "s", "r", "v")
        assert "its platform starts" in seen.text
        stage.gate.set()
        await seen.until(lambda: seen.standing.started)
        assert "One idea." in seen.text


@pytest.mark.parametrize("size", [(80, 24), (100, 30)])
async def test_until_its_own_platform_is_there_a_lesson_shows_none(tmp_path: Path, size: tuple[int, int]) -> None:
    async with lesson(tmp_path, size=size, alone=False) as seen:
        await seen.press("enter")
        await seen.until(lambda: isinstance(seen.app.screen, LessonScreen) and seen.standing.started)
        await seen.hear_workers()
        seen.screen.live.turn(Pin("workers"))
        await seen.pass_time(0.0)
        assert any("w-2" in line for line in seen.lines)
        seen.stage.gate.clear()
        seen.app.finish()
        await seen.press("down", "enter")
        await seen.until(lambda: isinstance(seen.app.screen, LessonScreen))
        seen.app.on_heard(Heard(two_workers()))  # which was on its way
        await seen.pass_time(1.0)
        assert "its platform starts" in seen.text
        assert "its platform, live: not there yet" in seen.text
        assert not any("w-2" in line for line in seen.lines)
        assert seen.app.live().snapshot is None
        assert seen.screen.targets(Verb.SCALE) == []
        seen.stage.gate.set()
        await seen.until(lambda: seen.standing.started)
        await seen.hear_workers()
        assert seen.app.live().snapshot is not None


async def test_while_a_lesson_is_put_back_nothing_is_shown_of_its_platform(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        seen.screen.live.turn(Pin("workers"))
        await seen.pass_time(0.0)
        assert any("w-2" in line for line in seen.lines)
        seen.stage.gate.clear()
        await seen.press("r", "y")
        await seen.pass_time(1.0)
        assert "its platform, live: not there yet" in seen.text
        assert not any("w-2" in line for line in seen.lines)
        seen.stage.gate.set()
        await seen.until(lambda: seen.standing.started)
        await seen.hear_workers()
        seen.screen.live.turn(Pin("workers"))
        await seen.pass_time(0.0)
        assert any("w-2" in line for line in seen.lines)


async def test_a_platform_that_does_not_come_says_why_and_can_be_tried_again(tmp_path: Path) -> None:
    stage = LessonStage()
    stage.refuses = Unavailable("no room for a worker", hint="inferdeck doctor")
    async with lesson(tmp_path, stage=stage, started=False) as seen:
        await seen.until(lambda: "no room for a worker" in seen.said)
        assert "inferdeck doctor" in seen.text
        assert "[Enter] try again" in seen.text
        stage.refuses = None
        await seen.press("enter")
        await seen.until(lambda: seen.standing.started)
        assert "One idea." in seen.text


async def test_what_fails_meanwhile_is_told_as_the_console_tells_it(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        await to_the_experiment(seen)
        seen.stage.breaks = Unavailable("the workers did not come", hint="inferdeck doctor")
        await seen.do("enter")
        assert "✗ the workers did not come; inferdeck doctor" in seen.text
        assert seen.record.steps["experiment"].state is State.OPEN
        seen.stage.breaks = None
        await seen.do("enter")
        assert seen.record.steps["experiment"].state is State.DONE


async def test_progress_that_cannot_be_kept_is_told(tmp_path: Path) -> None:
    async with lesson(tmp_path, size=(220, 30)) as seen:
        await seen.do(*TO_THE_FIRST_QUESTION, "1")
        (tmp_path / "learn.json").unlink()
        seen.progress.path = tmp_path / "learn.json" / "nowhere"
        (tmp_path / "learn.json").write_text("")
        await seen.do("enter")
        assert "learn.json/nowhere cannot be" in seen.text
        await seen.do("h", "left")
        assert seen.app.is_running


async def test_a_reset_asks_first(tmp_path: Path) -> None:
    async with lesson(tmp_path) as seen:
        await to_the_experiment(seen)
        await seen.press("r")
        assert isinstance(seen.app.screen, ResetScreen)
        assert "3 of 8 steps" in seen.words
        await seen.press("n")
        assert seen.screen.player.step.id == "experiment"
        await seen.press("r", "y")
        await seen.until(lambda: seen.standing.started)
        assert seen.screen.player.step.id == "idea"
        assert not seen.record.settled()
        assert seen.stage.asked.count("start sim 1") == 2
