"""A lesson on the screen, on a real platform: the simulator, through the keys that a learner presses."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from console.home import Home
from console.learn.stage import PlatformStage
from console.tui.learn.app import LearnApp
from console.tui.learn.lesson_screen import LessonScreen
from console.tui.learn.moment import moment
from console.tui.learn.sheets import Kind
from console.tui.learn.walk import Walk
from console.tui.remote import Remote
from lessons.catalogue import folder_of
from lessons.loader import load
from lessons.progress import Progress, State

FULL = load(folder_of("05-kv-cache-fills-up"))


async def test_a_lesson_is_played_and_its_platform_is_seen_meanwhile(tmp_path: Path) -> None:
    progress = Progress.read(tmp_path / "learn.json")
    words: list[str] = []
    batch: list[int] = []

    def look(screen: LessonScreen) -> None:
        if screen.standing.doing:
            words.append(screen.standing.shown.words)
            tape = screen.live.engine.steps.tape()
            batch.append(max((len(step.rows) for step in tape.steps), default=0))

    async with PlatformStage() as stage:
        remote = Remote(None, stage.target, "there")
        app = LearnApp(stage, progress, remote, remote, FULL)
        async with app.run_test(size=(100, 30)) as pilot:
            walk = Walk(pilot, look)
            player = await walk.began()
            home = Home(Path(stage.home))
            await walk.go_to("over")
            words.clear()
            await walk.step()
            assert set(words) == {"Forty at once, far beyond the cache."}
            assert max(batch) > 12, "its steps are seen while they are made"
            await walk.go_to("over", Kind.RESULT)
            assert all(row.value is not None for row in player.results().rows)
            await walk.go_to("no such step")
            assert progress.lesson(FULL.name).finished
            assert app.is_running, "the list is there"
        await app.settled()
        assert home.running() is not None, "the next lesson may have it"
    record = Progress.read(tmp_path / "learn.json").lesson(FULL.name)
    assert {step.id: record.of(step.id).state for step in FULL.steps} == {step.id: State.DONE for step in FULL.steps}
    assert home.running() is None
    assert not home.leftovers()


@asynccontextmanager
async def opened_from_the_list(tmp_path: Path) -> AsyncIterator[tuple[PlatformStage, LearnApp, Walk]]:
    """The lesson, with its platform there."""
    async with PlatformStage() as stage:
        remote = Remote(None, stage.target, "there")
        app = LearnApp(stage, Progress.read(tmp_path / "learn.json"), remote, remote)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            app.open_lesson(FULL.name)
            walk = Walk(pilot)
            await walk.began()
            yield stage, app, walk


async def test_esc_in_an_experiment_leaves_nothing_running(tmp_path: Path) -> None:
    async with opened_from_the_list(tmp_path) as (stage, _, walk):
        pilot, home = walk.pilot, Home(Path(stage.home))
        await walk.go_to("over")
        await pilot.press("enter")
        await pilot.pause(0.2)
        assert walk.screen is not None
        assert walk.screen.standing.doing
        await pilot.press("escape")
        while stage.running:
            await pilot.pause(0.05)
        assert walk.screen is None
        assert home.running() is None
        assert not home.leftovers()
    assert Progress.read(tmp_path / "learn.json").lesson(FULL.name).at == "over"


async def test_a_lesson_that_is_left_before_its_platform_comes_lets_the_one_before_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = tmp_path / "homes"
    homes.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(homes))
    seen: set[str] = set()
    async with opened_from_the_list(tmp_path) as (stage, app, _):
        home = Home(Path(stage.home))
        own = home.running()
        assert own is not None
        app.leave_lesson()
        await asyncio.sleep(0.01)
        app.open_lesson(FULL.name)
        await asyncio.sleep(0.01)
        app.leave_lesson()
        while stage.running or homes_in(homes):
            assert home.path.exists() or not own.alive, "its home goes after it"
            seen |= homes_in(homes)
            await asyncio.sleep(0.01)
        assert seen == {home.path.name}, "nothing starts for a lesson that nobody has open"


def homes_in(folder: Path) -> set[str]:
    return {each.name for each in folder.glob("inferdeck-lesson-*")}


async def test_a_moment_is_a_picture_of_the_running_lesson() -> None:
    picture = await moment(FULL, "over", result=False)
    assert picture.startswith("<svg")
    assert "@font-face" not in picture, "nothing is loaded from elsewhere"
    assert "Forty" in picture
    assert "it&#160;runs" in picture
