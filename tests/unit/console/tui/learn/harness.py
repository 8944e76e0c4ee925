"""Lessons without a terminal and without a platform: a stage and a feed in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from console.tui.learn.app import LearnApp
from console.tui.learn.lesson_screen import LessonScreen
from console.tui.learn.standing import Standing
from console.tui.render.look import RICH_LOOK
from control_plane.contracts.fleet import Snapshot
from lessons.loader import load
from lessons.progress import LessonRecord, Progress
from tests.snapshots.lesson_stage import LessonStage
from tests.snapshots.memory import MemoryPlatform, snapshot, worker
from tests.unit.console.tui.harness import Console
from tests.unit.lessons.folders import lesson_folder

NAME = "12-my-lesson"
TO_THE_FIRST_QUESTION = ("right", "right")
TO_THE_EXPERIMENT = (*TO_THE_FIRST_QUESTION, *"0.06", "enter", "b", "enter")


def two_workers() -> Snapshot:
    return snapshot(workers=(worker("w-1", 0.4), worker("w-2", 0.2)), requests=4)


@dataclass(kw_only=True)
class Class(Console):
    """A learner, and everything around."""

    stage: LessonStage
    progress: Progress

    @property
    def screen(self) -> LessonScreen:
        assert isinstance(self.app.screen, LessonScreen)
        return self.app.screen

    @property
    def standing(self) -> Standing:
        return self.screen.standing

    @property
    def said(self) -> str:
        """The words' side, without its line ends."""
        words = self.screen.query_one("#words")
        return " ".join(" ".join(words.render_line(y).text for y in range(words.size.height)).split())

    @property
    def record(self) -> LessonRecord:
        return self.progress.lesson(NAME)

    async def do(self, *keys: str) -> None:
        """These keys, each after what the one before set off."""
        for key in keys:
            await self.press(key)
            await self.until(lambda: not isinstance(self.app.screen, LessonScreen) or not self.standing.busy)

    async def hear_workers(self) -> None:
        await self.hear(two_workers())


@asynccontextmanager
async def lesson(
    tmp_path: Path,
    size: tuple[int, int] = (100, 30),
    *,
    alone: bool = True,
    started: bool = True,
    stage: LessonStage | None = None,
    progress: Progress | None = None,
    folder: Path | None = None,
) -> AsyncIterator[Class]:
    """The template's lesson, its platform up and heard. ``alone``: nobody asked for the list."""
    platform = MemoryPlatform()
    stage = stage or LessonStage()
    progress = progress or Progress.read(tmp_path / "learn.json")
    now = [1000.0]
    taken = load(folder or lesson_folder(tmp_path)) if alone else None
    app = LearnApp(
        stage,
        progress,
        platform,
        platform,
        taken,
        look=RICH_LOOK,
        paint_s=0.0,
        silence_s=1e6,
        keys_s=0.05,
        clock=lambda: now[0],
    )
    async with app.run_test(size=size) as pilot:
        seen = Class(app=app, platform=platform, pilot=pilot, now=now, stage=stage, progress=progress)
        if alone and started:
            await seen.until(lambda: seen.standing.started)
            await seen.hear_workers()
        yield seen


def keys(*names: str) -> tuple[str, ...]:
    return tuple("full_stop" if name == "." else name for name in names)


async def to_the_experiment(seen: Class) -> None:
    await seen.do(*keys(*TO_THE_EXPERIMENT))
    assert seen.screen.player.step.id == "experiment"


async def to_the_repair(seen: Class) -> None:
    await to_the_experiment(seen)
    await seen.do("enter", "right", "right", "right", "b", "enter", "right", "enter", "right")
    assert seen.screen.player.step.id == "repair"
