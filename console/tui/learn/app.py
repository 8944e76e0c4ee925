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
from console.to_the_end import to_the_end
from console.tui.app import ConsoleApp
from console.tui.feed import Feed, Operator
from console.tui.learn.desk import Doing
from console.tui.learn.finished_screen import FinishedScreen
from console.tui.learn.lesson_screen import LessonScreen
from console.tui.learn.lessons_screen import LessonsScreen
from console.tui.learn.messages import Began, Came, Failed, Outcome, Readying
from console.tui.learn.navigator import LessonNavigator
from console.tui.live.board import Board
from console.tui.messages import Heard, Learnt, LinkLost
from console.tui.remote import Remote
from console.tui.route import Route
from control_plane.contracts.errors import InferDeckError
from control_plane.contracts.fleet import Snapshot
from lessons.catalogue import folder_of
from lessons.loader import load
from lessons.model import Lesson
from lessons.player import Player
from lessons.progress import Progress
from lessons.stage import Stage

KEYS: Final = (
    ("→ ←", "on, back; a commit and an action are Enter"),
    ("Enter", "commit an answer, set off, run, look"),
    ("a b c", "choose; or type a number: 21 ms, 0,5 s; 1,000 is a thousand"),
    ("h", "a hint; s skips, which is recorded, and tells the answer"),
    ("r", "the lesson from its beginning"),
    ("v", "another live view; Tab gives it the keys"),
    ("Esc", "leave: nothing runs on, and you go on from there"),
)

LEAVING: Final = "leave: the lesson's platform ends; how far you are is kept"


class Sandboxes(Stage, Protocol):
    """A stage whose platforms can be looked at."""

    @property
    def home(self) -> str: ...

    @property
    def began(self) -> Snapshot | None:
        """The platform as the lesson found it."""
        ...

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
        super().__init__(feed, operator, leaving=LEAVING, **options)
        self.own_keys = ("a lesson", KEYS)
        self._stage = stage
        self._progress = progress
        self._first = lesson
        self._navigator: LessonNavigator = LessonNavigator(self, self.leave_lesson)
        self._player: Player | None = None
        self._job: Worker[None] | None = None
        self._heard_of = ""

    def arrive(self) -> None:
        self.push_screen(LessonsScreen(Route("lessons"), self._progress))
        if (first := self._first) is not None:
            self._open_or_ask(first)

    def listen(self) -> None:
        """Only once a lesson has a platform."""

    @property
    def elsewhere(self) -> str:
        return self._heard_of

    def open_lesson(self, name: str) -> None:
        self._first = None
        self._open_or_ask(load(folder_of(name)))

    def _open_or_ask(self, lesson: Lesson) -> None:
        """Of one that is done the score is told, and it is asked what to do with it."""
        record = self._progress.lesson(lesson.name)
        if record.finished:
            self._first = None
            self.push_screen(
                FinishedScreen(lesson, record, partial(self._open, lesson), partial(self._open, lesson, back=True))
            )
        else:
            self._open(lesson)

    def _open(self, lesson: Lesson, *, back: bool = False) -> None:
        self._player = Player(lesson, self._stage, self._progress, back=back)
        self.push_screen(LessonScreen(Route("lesson", lesson.name), self._player))
        self.begin()

    def begin(self) -> None:
        assert self._player is not None
        self._raise_platform(self._player.start)

    def anew(self) -> None:
        assert self._player is not None
        self._raise_platform(self._player.reset)

    def _raise_platform(self, start: Doing) -> None:
        self._hush()
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
        self._hush()
        self._player = None
        self._navigator.close()
        self.paint()

    def _hush(self) -> None:
        """Nothing is known, or heard, of any platform until a lesson's own is there."""
        self.workers.cancel_group(self, "feed")
        self._heard_of, self._frozen = "", None
        self._board = Board("")

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
        self._hush()
        self._heard_of = self._stage.home
        self._board = Board(self._player.label)
        super().listen()
        screen.began(self._stage.began)

    def on_heard(self, message: Heard) -> None:
        message.prevent_default()
        if self._heard_of:  # else it was on its way when its platform was put away
            super().on_heard(message)

    def on_learnt(self, message: Learnt) -> None:
        message.prevent_default()
        if self._heard_of:
            super().on_learnt(message)

    def on_link_lost(self, message: LinkLost) -> None:
        message.prevent_default()
        if self._heard_of:
            super().on_link_lost(message)

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
    """Whoever waits may be cancelled, and is once the work has ended: that cancels nothing of the work."""
    # ``Worker.wait`` cancels the worker when it is cancelled itself, and then says only that the worker was.
    await to_the_end(asyncio.create_task(_waited_for(work)))


async def _waited_for(work: Worker[None]) -> None:
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
