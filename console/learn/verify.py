"""Whether a lesson is sound: each check fails before its step is done and passes after, wrong answers get the hint
that is meant for them, and what an earlier learner left behind changes nothing."""

from __future__ import annotations

from collections.abc import Callable

from console.learn.stage import PlatformStage
from control_plane.contracts.errors import InferDeckError
from lessons.actions import POOL, Action, Calls, Cordon, Inject, SetPolicy, Shape
from lessons.answers import Misread, letter, right_option
from lessons.checks import Verdict
from lessons.model import Check, Do, Lesson, Observe, Predict, Quiz, Show
from lessons.player import NotYet, Player
from lessons.progress import LessonRecord, Progress, State, StepRecord

Say = Callable[[str], None]

TRIES = 2
"""Of an experiment: another process of the machine may have been in its way."""


async def verify(lesson: Lesson, stage: PlatformStage, say: Say) -> list[str]:
    """What is wrong, a line each; first in a new sandbox, then in the same one after it was left in a mess."""
    faults: list[str] = []
    await stage.close()
    for state in ("fresh", "dirty"):
        progress = Progress()
        if state == "dirty":
            await soil(lesson, stage)
            progress.lessons[lesson.name] = _half_way(lesson)
        round_ = _Round(lesson, Player(lesson, stage, progress), state, say)
        try:
            await round_.go()
        except InferDeckError as error:
            round_.fault(f"{type(error).__name__}: {error.message}")
        faults += round_.faults
    return faults


async def soil(lesson: Lesson, stage: PlatformStage) -> None:
    """What a careless learner may leave: calls that run, and everything set to something else."""
    box = lesson.sandbox
    other = "balanced" if box.profile == "round_robin" else "round_robin"
    mess: list[Action] = [
        Calls((Shape("left-over", 64, 1500),), count=4, at_once=4, background=True),
        SetPolicy((f"routing.profile={other}", "tiers.enterprise.priority=3")),
        Cordon(f"{POOL}-1"),
    ]
    if box.engine == "sim":
        mess += [Inject(f"{POOL}-1", "slow", factor=3.0), Inject(f"{POOL}-{box.replicas}", "crash")]
    for action in mess:
        await stage.act(action)


def _half_way(lesson: Lesson) -> LessonRecord:
    """Progress of somebody who skipped through to the end: it starts anew."""
    steps = {step.id: StepRecord(State.SKIPPED, "", 1, 1) for step in lesson.steps}
    return LessonRecord(lesson.steps[-1].id, True, steps, {})


class _Round:
    def __init__(self, lesson: Lesson, player: Player, state: str, say: Say) -> None:
        self.faults: list[str] = []
        self._lesson = lesson
        self._player = player
        self._state = state
        self._say = say

    def fault(self, message: str) -> None:
        line = f"{self._lesson.name}, {self._state}, {self._player.step.id}: {message}"
        self.faults.append(line)
        self._say(f"✗ {line}")

    async def go(self) -> None:
        player = self._player
        await player.start()
        going = True
        while going:
            if player.page == len(player.step.words.pages) - 1:
                await self._settle()
            going = await player.forward()
        if not self.faults:
            self._say(f"✓ {self._lesson.name}, {self._state}: {len(self._lesson.steps)} steps on {player.label}")

    async def _settle(self) -> None:
        player, step = self._player, self._player.step
        if isinstance(step, Show) and not (await player.show()).view:
            self.fault("the view is empty")
        if isinstance(step, Predict | Quiz | Do | Observe | Check):
            await self._must_stay()
        if isinstance(step, Predict):
            self._misread("what?")
            player.commit(step.reference)
        elif isinstance(step, Quiz):
            self._misread("zz")
            self._quiz(step)
        elif isinstance(step, Do | Observe):
            if step.expects and all(verdict.holds for verdict in await player.glance()):
                self.fault("its check holds before anything is done")
            await self._act()
        elif isinstance(step, Check):
            reply = await player.act()
            if reply.ok:
                self.fault("its check holds before anything is done")
                return
            if reply.message != step.words.hints[0]:
                self.fault(f"the first failure gets {reply.message!r}, not the first hint")
            await player.solve()
            await self._act()

    async def _must_stay(self) -> None:
        try:
            await self._player.forward()
        except NotYet:
            return
        self.fault("it can be passed without doing anything")

    def _misread(self, text: str) -> None:
        try:
            self._player.commit(text)
        except Misread:
            return
        self.fault(f"{text!r} is taken for an answer")

    def _quiz(self, step: Quiz) -> None:
        for index, option in enumerate(step.options):
            if not option.right:
                reply = self._player.commit(letter(index))
                if reply.ok or reply.message != option.says or reply.answer:
                    self.fault(f"answer {letter(index)} gets {reply.message!r}, not what is meant for it")
        if not self._player.commit(letter(right_option(step))).ok:
            self.fault("the right answer is not taken")

    async def _act(self) -> None:
        verdicts: tuple[Verdict, ...] = ()
        for _ in range(TRIES):
            reply = await self._player.act()
            verdicts = reply.verdicts
            if reply.ok:
                return
        for verdict in verdicts:
            if not verdict.holds:
                self.fault(f"{verdict.says}: {verdict.reason}")
        await self._player.skip()
