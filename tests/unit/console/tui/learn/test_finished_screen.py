"""A lesson that was finished before: looked back at, or begun anew."""

from __future__ import annotations

from pathlib import Path

from console.tui.learn.finished_screen import FinishedScreen
from console.tui.learn.lesson_screen import LessonScreen
from lessons.progress import Progress
from tests.unit.console.tui.learn.harness import lesson, to_the_repair


async def finished(tmp_path: Path) -> Progress:
    """Of a lesson that was taken to its end."""
    async with lesson(tmp_path) as seen:
        await to_the_repair(seen)
        await seen.do("s", "right", "right")
        assert seen.record.finished
        return seen.progress


async def test_a_finished_lesson_asks_before_it_begins_anew(tmp_path: Path) -> None:
    progress = Progress.read(tmp_path / "learn.json")
    async with lesson(tmp_path, alone=False, progress=progress) as seen:
        for record in progress.lessons.values():
            record.finished = True
        await seen.press("enter")
        assert isinstance(seen.app.screen, FinishedScreen)
        await seen.press("n")
        assert not isinstance(seen.app.screen, FinishedScreen | LessonScreen)
        await seen.press("enter", "y")
        await seen.until(lambda: isinstance(seen.app.screen, LessonScreen) and seen.standing.started)


async def test_a_finished_lesson_that_is_named_says_so_and_can_be_looked_back_at(tmp_path: Path) -> None:
    progress = await finished(tmp_path / "before")
    async with lesson(tmp_path, progress=progress, started=False) as seen:
        await seen.until(lambda: isinstance(seen.app.screen, FinishedScreen))
        assert "Lesson 12 is done" in seen.text
        assert "2 of 2 predictions right; 1 of 8 steps skipped" in seen.text
        assert not seen.stage.running
        await seen.press("b")
        await seen.until(lambda: isinstance(seen.app.screen, LessonScreen) and seen.standing.started)
        while seen.screen.player.step.id != "experiment":
            await seen.do("right")
        assert "[Enter] run it again" not in seen.said
        await seen.do("right")
        assert "✓ right: b) 64, as many as were asked for" in seen.said
        assert seen.stage.asked == ["start sim 1"]
        assert seen.record.finished
        await seen.do("escape")
        await seen.until(lambda: "runs on" in seen.text)


async def test_a_finished_lesson_that_is_named_is_begun_anew_only_where_that_is_wanted(tmp_path: Path) -> None:
    progress = await finished(tmp_path / "before")
    async with lesson(tmp_path, progress=progress, started=False) as seen:
        await seen.until(lambda: isinstance(seen.app.screen, FinishedScreen))
        await seen.press("escape")
        assert seen.record.finished
        assert "runs on" in seen.text
    async with lesson(tmp_path / "again", progress=progress, started=False) as seen:
        await seen.until(lambda: isinstance(seen.app.screen, FinishedScreen))
        await seen.press("y")
        await seen.until(lambda: isinstance(seen.app.screen, LessonScreen) and seen.standing.started)
        assert not seen.record.settled()
