"""The console with lessons: a list, and in each lesson the platform that it has for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from textual.worker import Worker, WorkerCancelled, WorkerFailed

from console.learn.stage import PlatformStage
from console.plain.terminal import say
from console.readiness import Readiness
from console.tui.app import ConsoleApp
from console.tui.feed import Feed, Operator
from console.tui.learn.desk import Doing
from console.tui.learn.lesson_screen import LessonScreen
from console.tui.learn.lessons_screen import LessonsScreen
from console.tui.learn.messages import Began, Came, Failed, Outcome, Readying
from console.tui.learn.navigator import LessonNavigator
from console.tui.learn.reset_screen import ResetScreen
from console.tui.live.board import Board
from console.tui.remote import Remote
from console.tui.route import Route
from control_plane.contracts.errors import InferDeckError
from lessons.catalogue import folder_of
from lessons.loader import load
from lessons.model import Lesson
from lessons.player import Player
from lessons.progress import Progress
from lessons.stage import Stage

KEYS: Final = (
    ("→ ←", "on, back; a commit and an action are Enter"),
    ("Enter", "commit an answer, set off, run, look"),
    ("a b c", "choose; a number is typed, with its unit: 21 ms"),
    ("h", "a hint; s skips, which is recorded, and tells the answer"),
    ("r", "the lesson from its beginning"),
    ("v", "another live view; Tab gives it the keys"),
    ("Esc", "leave: nothing runs on, and you go on from there"),
)


class Sandboxes(Stage, Protocol):
    """A stage whose platforms can be looked at."""

    @property
    def home(self) -> str: ...

    async def close(self) -> None: ...


class LearnApp(ConsoleApp):
    """``lesson`` is opened first; without one, the list. ``feed`` and ``operator`` are those of whatever platform
    ``stage`` has."""

    CSS_PATH = "../styles.tcss"

    def __init__(
        self,
        stage: Sandboxes,
        progress: Progress,
        feed: Feed,
        operator: Operator,
        lesson: Lesson | None = None,
        **options: Any,
    ) -> None:
        super().__init__(feed, operator, **options)
        self.own_keys = KEYS
        self._stage = stage
        self._progress = progress
        self._first = lesson
        self._navigator: LessonNavigator = LessonNavigator(self, self.leave_lesson)
        self._player: Player | None = None
        self._job: Worker[None] | None = None
        self._heard_of = ""

    def arrive(self) -> None:
        self.push_screen(LessonsScreen(Route("lessons"), self._progress))
        if self._first is not None:
            self._open(self._first)

    def listen(self) -> None:
        """Only once a lesson has a platform."""

    @property
    def elsewhere(self) -> str:
        return self._heard_of

    def open_lesson(self, name: str) -> None:
        """One that is done begins anew, which is asked first."""
        self._first = None
        lesson = load(folder_of(name))
        if self._progress.lesson(lesson.name).finished:
            player = Player(lesson, self._stage, self._progress)
            self.push_screen(ResetScreen(player, partial(self._open, lesson)))
        else:
            self._open(lesson)

    def _open(self, lesson: Lesson) -> None:
        self._player = Player(lesson, self._stage, self._progress)
        self.push_screen(LessonScreen(Route("lesson", lesson.name), self._player))
        self.begin()

    def begin(self) -> None:
        assert self._player is not None
        self._raise_platform(self._player.start)

    def anew(self) -> None:
        assert self._player is not None
        self._raise_platform(self._player.reset)

    def _raise_platform(self, start: Doing) -> None:
        if (screen := self._navigator.lesson) is not None:
            screen.starting()
        self._set_off(partial(self._come_up, start))

    def work(self, doing: Doing) -> None:
        self._set_off(partial(self._carry_on, doing))

    def finish(self) -> None:
        self._first = None
        self._close_lesson()

    def leave_lesson(self) -> None:
        """Nothing of it runs on; where no list was asked for, the program ends."""
        if self._navigator.lesson is None or self._first is not None:
            self.exit(0)
            return
        if self._job is not None:
            self._job.cancel()
        self._close_lesson()
        self._set_off(self._put_away)

    def _close_lesson(self) -> None:
        self.workers.cancel_group(self, "feed")
        self._heard_of, self._player, self._frozen = "", None, None
        self._navigator.close()
        self.paint()

    def _set_off(self, doing: Callable[[], Any]) -> None:
        """After what was set off before: that was cancelled, or closes a platform."""
        before = self._job
        self._job = self._start_job(partial(_after, before, doing))

    def _start_job(self, doing: Callable[[], Any]) -> Worker[None]:
        return self.run_worker(doing, group="lesson")

    async def _put_away(self) -> None:
        await self._feed.close()
        await self._stage.close()

    async def _come_up(self, start: Doing) -> None:
        try:
            await start()
        except InferDeckError as error:
            self.post_message(Failed(error, starting=True))
        else:
            self.post_message(Began())

    async def _carry_on(self, doing: Doing) -> None:
        try:
            outcome: Outcome = await doing()
        except InferDeckError as error:
            self.post_message(Failed(error))
        else:
            self.post_message(Came(outcome))

    def on_readying(self, message: Readying) -> None:
        if self.is_running and (screen := self._navigator.lesson) is not None:
            screen.readying(message.readiness)

    def on_began(self, message: Began) -> None:
        screen = self._navigator.lesson if self.is_running else None
        if screen is None or self._player is None:
            return
        if self._heard_of != self._stage.home:
            self._heard_of = self._stage.home
            self._board = Board(self._player.label)
            self._frozen = None
            self.workers.cancel_group(self, "feed")
            super().listen()
        screen.began()

    def on_came(self, message: Came) -> None:
        if self.is_running and (screen := self._navigator.lesson) is not None:
            screen.came(message.outcome)

    def on_failed(self, message: Failed) -> None:
        if self.is_running and (screen := self._navigator.lesson) is not None:
            screen.failed(message.error, starting=message.starting)

    def readying(self, readiness: Readiness) -> None:
        """Called while a platform starts."""
        if self.is_running:
            self.post_message(Readying(readiness))

    async def settled(self) -> None:
        """Once what was set off has ended; it is cancelled."""
        if self._job is not None:
            self._job.cancel()
            await _ended(self._job)


async def _after(before: Worker[None] | None, doing: Callable[[], Any]) -> None:
    if before is not None:
        await _ended(before)
    await doing()


async def _ended(work: Worker[None]) -> None:
    with suppress(WorkerFailed, WorkerCancelled):
        await work.wait()


def run(progress: Progress, lesson: Lesson | None = None) -> int:
    """Show the lessons until the learner leaves. Returns the exit code; nothing is left running."""
    return asyncio.run(_run(progress, lesson))


async def _run(progress: Progress, lesson: Lesson | None) -> int:
    app: LearnApp | None = None

    def readying(now: Readiness) -> None:
        if app is not None:
            app.readying(now)

    async with PlatformStage(readying) as stage:
        remote = Remote(None, stage.target, "a lesson's platform")
        app = LearnApp(stage, progress, remote, remote, lesson)
        left = await app.run_async()
        if stage.running:
            say("stopping the lesson's platform")
        await app.settled()
    return left if left is not None else app.return_code or 0
