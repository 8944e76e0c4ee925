"""Plays a lesson without a screen: where the learner is, what may be done there, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from control_plane.contracts.errors import Conflict
from lessons.actions import Action, Cancel
from lessons.answers import Outcome, letter, outcome, read_answer, right_option
from lessons.changing import still_changing
from lessons.checks import Expect, Verdict, shown
from lessons.model import Check, Do, Lesson, Observe, Predict, Quiz, Reveal, Show, Step
from lessons.observation import Observation, Value
from lessons.progress import LessonRecord, Progress, State, StepRecord
from lessons.remains import actions_of, left_running, remains
from lessons.stage import Stage


class NotYet(Conflict):
    """Something has to be done first; the message says what."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measured value, as it is told."""

    name: str
    label: str
    value: Value | None
    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of something. ``message`` is the hint that fits where it went wrong; ``answer`` is told once the step
    is passed or given up; ``view`` are the lines of a live view."""

    ok: bool
    message: str = ""
    answer: str = ""
    rows: tuple[Row, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    outcomes: tuple[tuple[Predict, Outcome], ...] = ()
    view: tuple[str, ...] = ()


class Player:
    """Starts where ``progress`` says. ``start`` comes first; ``progress`` is saved at every change.

    Going back shows what was, and undoes nothing: a prediction stays committed once its experiment has run. A lesson
    that is finished begins anew, unless one looks ``back`` at it: then nothing of it runs.
    """

    def __init__(self, lesson: Lesson, stage: Stage, progress: Progress, *, back: bool = False) -> None:
        self.lesson = lesson
        self.label = ""
        self.page = 0
        self._stage = stage
        self._progress = progress
        self._back = back
        ids = [step.id for step in lesson.steps]
        at = self.record.at
        self.index = ids.index(at) if at in ids and not self.record.finished else 0

    @property
    def record(self) -> LessonRecord:
        return self._progress.lesson(self.lesson.name)

    @property
    def step(self) -> Step:
        return self.lesson.steps[self.index]

    @property
    def here(self) -> StepRecord:
        return self.record.of(self.step.id)

    @property
    def last(self) -> bool:
        return self.index == len(self.lesson.steps) - 1 and self.page == len(self.step.words.pages) - 1

    async def start(self) -> None:
        """The sandbox, as the steps before this one left it: lasting changes are made again, and calls that the learner
        has not dealt with yet run again; experiments do not."""
        if self.record.finished and not self._back:
            self._forget()
        self.label = await self._stage.start(self.lesson.sandbox, self.lesson.seed)
        settled = [each for each in self.lesson.steps[: self.index] if not self._is_open(each)]
        await self._run(remains(settled))
        self._arrived()
        await self._stage.mark()

    async def reset(self) -> None:
        """From the first step, in a sandbox that is put back."""
        self._forget()
        self._back = False
        await self.start()

    def _forget(self) -> None:
        self._progress.lessons[self.lesson.name] = LessonRecord()
        self.index = self.page = 0

    async def forward(self) -> bool:
        """On to the next screen; False at the lesson's end. Raises NotYet while this step is open."""
        if self.page < len(self.step.words.pages) - 1:
            self.page += 1
            return True
        if isinstance(self.step, Reveal | Show):
            self.here.state = State.DONE
        if self.here.state is State.OPEN:
            raise NotYet(f"{_WAITS[self.step.kind]}, ask for a hint, or skip it", param=self.step.id)
        if self.last:
            self.record.finished = True
            self._progress.save()
            return False
        self.index, self.page = self.index + 1, 0
        self._arrived()
        await self._stage.mark()
        return True

    def back(self) -> bool:
        """The screen before; False at the first."""
        if self.page:
            self.page -= 1
            return True
        if not self.index:
            return False
        self.index -= 1
        self.page = len(self.step.words.pages) - 1
        self._arrived()
        return True

    def _arrived(self) -> None:
        self.record.at = self.step.id
        self._progress.save()

    def commit(self, text: str) -> Reply:
        """The answer to a prediction or a quiz. Raises Misread for what is none, NotYet where nothing is asked or the
        experiment has run already."""
        step, here = self.step, self.here
        if not isinstance(step, Predict | Quiz):
            raise NotYet("nothing is asked here", param=step.id)
        answer = read_answer(step, text)
        if isinstance(step, Predict):
            if self.record.of(step.about).state is not State.OPEN:
                raise NotYet("it was measured already; a reset begins the lesson anew", param=step.id)
            here.state, here.answer = State.DONE, text.strip()
            self._progress.save()
            return Reply(True)
        here.tries += 1
        option = next(each for index, each in enumerate(step.options) if letter(index) == answer)
        if option.right:
            here.state, here.answer = State.DONE, text.strip()
        self._progress.save()
        return Reply(option.right, option.says, step.words.answer if option.right else "")

    async def show(self) -> Reply:
        """The live view of a show step. Raises NotYet where there is none."""
        if not isinstance(self.step, Show):
            raise NotYet("there is no view here", param=self.step.id)
        return Reply(True, view=await self._stage.show(self.step.view, self.step.of))

    async def act(self) -> Reply:
        """Do what the step does, or look whether the learner did what it asks for. Raises NotYet where there is
        nothing to do, or a prediction about it is not committed."""
        step, here = self.step, self.here
        if here.state is State.DONE and isinstance(step, Do | Observe):
            return await self._again(step)
        changing = ""
        if isinstance(step, Do):
            await self._run(step.actions)
            reply = self._judged(step.expects, await self._observe())
        elif isinstance(step, Observe):
            if open_ones := [each.id for each in self._predictions(step) if self._is_open(each)]:
                raise NotYet(f"commit your prediction first: {', '.join(open_ones)}", param=open_ones[0])
            reply = await self._experiment(step)
        elif isinstance(step, Check):
            here.tries += 1
            changing = still_changing(await self._stage.snapshot())
            seen = await self._probed(step)
            reply = self._judged(step.expects, seen)
            changing = still_changing(seen.snapshot) or changing
        else:
            raise NotYet("there is nothing to do here", param=step.id)
        if reply.ok:
            here.state = State.DONE
            reply = replace(reply, answer=step.words.answer)
        elif not isinstance(step, Observe):
            reply = replace(reply, message=changing or self.hint() or unmet(reply.verdicts))
        self._progress.save()
        return reply

    @property
    def repeats(self) -> bool:
        """Whether this step, which is done, can be set off again: not once a later one changed what lasts, nor on a
        platform that has nothing of the steps before it."""
        later = (each for each in self.lesson.steps[self.index + 1 :] if not self._is_open(each))
        changed = any(action.lasting for each in later for action in actions_of(each))
        return isinstance(self.step, Do | Observe) and self.here.state is State.DONE and not (changed or self._back)

    async def _again(self, step: Do | Observe) -> Reply:
        """What was measured stays known where it does not come out this time."""
        if not self.repeats:
            raise NotYet("later steps changed the platform: a reset begins the lesson anew", param=step.id)
        for name in left_running([step]):
            await self._stage.act(Cancel(name))
        if isinstance(step, Do):
            await self._run(step.actions)
            reply = self._judged(step.expects, await self._observe())
            message = unmet(reply.verdicts)
        else:
            known = dict(self.record.measured)
            reply = await self._experiment(step)
            message = reply.message
            if not reply.ok:
                self.record.measured = known
        self._progress.save()
        return replace(reply, answer=step.words.answer) if reply.ok else replace(reply, message=message)

    async def _experiment(self, step: Observe) -> Reply:
        await self._stage.mark()
        await self._run(step.actions)
        reply = self._measured(step, await self._observe())
        return reply if reply.ok else replace(reply, message=NO_EFFECT)

    async def glance(self) -> tuple[Verdict, ...]:
        """What the checks of this step say now, without doing anything that counts as an attempt."""
        step = self.step
        if isinstance(step, Check):
            return self._judged(step.expects, await self._probed(step)).verdicts
        if isinstance(step, Observe):
            kept = dict(self.record.measured)
            try:
                return self._measured(step, await self._observe()).verdicts
            finally:
                self.record.measured = kept
        return self._judged(step.expects, await self._observe()).verdicts if isinstance(step, Do) else ()

    async def solve(self) -> None:
        """Do what the lesson itself would do at a check."""
        if isinstance(self.step, Check):
            await self._run(self.step.reference)

    def hint(self) -> str:
        """The next hint, "" where there is no other."""
        hints = self.step.words.hints
        if self.here.hints >= len(hints):
            return ""
        self.here.hints += 1
        self._progress.save()
        return hints[self.here.hints - 1]

    def hints_shown(self) -> tuple[str, ...]:
        return self.step.words.hints[: self.here.hints]

    async def skip(self) -> Reply:
        """Go on without it: recorded, and the answer is told. What later steps stand on is still done: of an experiment
        what lasts, as it is when a learner comes back."""
        step, here = self.step, self.here
        if here.state is not State.OPEN or isinstance(step, Reveal | Show):
            return Reply(True)
        if isinstance(step, Do):
            await self._run(step.actions)
        elif isinstance(step, Check):
            await self._run(step.reference)
        elif isinstance(step, Observe):
            await self._run(tuple(action for action in step.actions if action.lasting))
            self.record.measured.update((each.name, None) for each in step.measures)
        here.state = State.SKIPPED
        self._progress.save()
        return Reply(True, answer=self.answer())

    def answer(self) -> str:
        """What is told of this step once it is passed or given up; "" while it is open. What is right about a
        prediction is measured, and told with its experiment."""
        step, state = self.step, self.here.state
        if state is State.OPEN or isinstance(step, Predict):
            return ""
        told = step.words.answer
        if state is State.SKIPPED and isinstance(step, Check):
            return "\n".join([*(action.told() for action in step.reference), "", told]).strip()
        if state is State.SKIPPED and isinstance(step, Quiz):
            right = right_option(step)
            return f"{letter(right)}) {step.options[right].text}\n\n{told}".strip()
        return told

    async def _run(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            await self._stage.act(action)

    async def _probed(self, step: Check) -> Observation:
        if step.probe:
            await self._stage.mark()
            await self._run(step.probe)
        return await self._observe()

    async def _observe(self) -> Observation:
        return replace(await self._stage.observe(), measured=dict(self.record.measured))

    def _judged(self, expects: tuple[Expect, ...], seen: Observation) -> Reply:
        verdicts = tuple(expect.verdict(seen) for expect in expects)
        return Reply(all(verdict.holds for verdict in verdicts), verdicts=verdicts)

    def _measured(self, step: Observe, seen: Observation) -> Reply:
        known = self.record.measured
        for each in step.measures:
            known[each.name] = each.measure.read(replace(seen, measured=known))
        judged = self._judged(step.expects, replace(seen, measured=dict(known)))
        results = self._results(step)
        return replace(judged, rows=results.rows, outcomes=results.outcomes)

    def results(self) -> Reply:
        """What this step's experiment measured when it ran; empty where it has not, or is none."""
        step = self.step
        ran = isinstance(step, Observe) and self.here.state is State.DONE
        return self._results(step) if ran and isinstance(step, Observe) else Reply(True)

    def _results(self, step: Observe) -> Reply:
        known = self.record.measured
        rows = tuple(
            Row(each.name, each.label, value, shown(value, each.measure.unit or self._unit(each.name)))
            for each in step.measures
            for value in [known.get(each.name)]
        )
        outcomes = tuple(
            (each, outcome(each, self.record.of(each.id).answer, known.get(each.value)))
            for each in self._predictions(step)
        )
        return Reply(True, rows=rows, outcomes=outcomes)

    def _unit(self, name: str) -> str:
        return next((each.unit for each in self.lesson.steps if isinstance(each, Predict) and each.value == name), "")

    def _predictions(self, step: Observe) -> Iterator[Predict]:
        return (each for each in self.lesson.steps if isinstance(each, Predict) and each.about == step.id)

    def _is_open(self, step: Step) -> bool:
        return self.record.of(step.id).state is State.OPEN


_WAITS = {
    "do": "set it off first",
    "predict": "commit a prediction first",
    "observe": "run the experiment first",
    "check": "this is not done yet: do it",
    "quiz": "answer it first",
}


NO_EFFECT: Final = "Its effect did not show this time. Run it again."
"""Of an experiment: why it did not would give the predictions' answers away."""


def gives_away(player: Player, reply: Reply) -> bool:
    """Whether the reasons of an experiment that showed no effect tell what its predictions ask for."""
    step = player.step
    asked = any(isinstance(each, Predict) and each.about == step.id for each in player.lesson.steps)
    return isinstance(step, Observe) and not reply.ok and asked


def unmet(verdicts: tuple[Verdict, ...]) -> str:
    return "; ".join(f"{verdict.says}: {verdict.reason}" for verdict in verdicts if not verdict.holds)
