"""Out of a lesson: what it began ends, and the next one waits for that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from console.tui.learn.app import LearnApp
from console.tui.learn.lesson_screen import LessonScreen
from lessons.progress import Progress, State
from tests.snapshots.lesson_stage import LessonStage
from tests.unit.console.tui.learn.harness import NAME, Class, lesson, to_the_experiment


async def test_leaving_in_the_middle_ends_it_all_and_keeps_the_progress(tmp_path: Path) -> None:
    stage = LessonStage()
    async with lesson(tmp_path, stage=stage) as seen:
        await to_the_experiment(seen)
        stage.gate.clear()
        await seen.press("enter", "escape")
        await seen.app.settled()
        assert seen.app.return_value == 0
    stage.gate.set()
    kept = Progress.read(tmp_path / "learn.json")
    assert kept.lesson(NAME).at == "experiment"
    assert kept.lesson(NAME).steps["experiment"].state is State.OPEN
    async with lesson(tmp_path / "again", progress=kept) as seen:
        assert "Run it." in seen.text


async def test_from_the_list_one_comes_back_to_the_list(tmp_path: Path) -> None:
    async with lesson(tmp_path, alone=False) as seen:
        assert "runs on" in seen.text
        await seen.press("down", "enter")
        await seen.until(lambda: isinstance(seen.app.screen, LessonScreen) and seen.standing.started)
        await seen.hear_workers()
        name = seen.screen.player.lesson.name
        await seen.do("right", "escape")
        await seen.until(lambda: seen.stage.closed == 1)
        assert "runs on" in seen.text
        assert seen.progress.lesson(name).at
        await seen.press("escape")
        assert seen.app.return_value == 0


@asynccontextmanager
async def one_open_while_the_one_before_ends(tmp_path: Path) -> AsyncIterator[tuple[LessonStage, Class]]:
    """The platform of the one before ends when ``way_out`` is set."""
    stage = LessonStage()
    async with lesson(tmp_path, alone=False, stage=stage) as seen:
        await seen.press("enter")
        await seen.until(lambda: isinstance(seen.app.screen, LessonScreen) and seen.standing.started)
        stage.way_out.clear()
        await seen.press("escape")
        await seen.until(lambda: stage.closing == 1)
        await seen.press("enter")
        assert isinstance(seen.app.screen, LessonScreen)
        yield stage, seen


async def test_leaving_what_waits_for_the_platform_before_breaks_nothing_off_and_starts_nothing(tmp_path: Path) -> None:
    async with one_open_while_the_one_before_ends(tmp_path) as (stage, seen):
        await seen.press("escape", "enter", "escape")
        assert (stage.closing, stage.closed, stage.broken_off) == (1, 0, 0), "nothing goes on beside it"
        stage.way_out.set()
        await seen.until(lambda: stage.closed == 3)
        assert len([asked for asked in stage.asked if asked.startswith("start")]) == 1
        assert stage.broken_off == 0


async def test_waiting_until_all_is_settled_breaks_nothing_off(tmp_path: Path) -> None:
    async with one_open_while_the_one_before_ends(tmp_path) as (stage, seen):
        assert isinstance(seen.app, LearnApp)
        settling = asyncio.create_task(seen.app.settled())
        await seen.settle()
        assert not settling.done()
        stage.way_out.set()
        await settling
        assert (stage.closed, stage.broken_off) == (1, 0)
        assert len([asked for asked in stage.asked if asked.startswith("start")]) == 1
