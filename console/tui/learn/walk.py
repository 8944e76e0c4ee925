"""A lesson through its screen without a learner: the keys that somebody with the reference answers would press."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from textual.pilot import Pilot

from console.tui.learn.lesson_screen import LessonScreen
from console.tui.learn.sheets import Kind
from control_plane.contracts.errors import Conflict
from lessons.answers import letter, right_option
from lessons.model import Check, Predict, Quiz
from lessons.player import Player

TRIES: Final = 3
"""Of a step on a machine that others use too."""

_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Walk:
    """``look`` is called each time that something may have changed on the screen."""

    pilot: Pilot[int]
    look: Callable[[LessonScreen], None] = lambda _: None

    @property
    def screen(self) -> LessonScreen | None:
        """The lesson, as long as it is open."""
        top = self.pilot.app.screen
        return top if isinstance(top, LessonScreen) else None

    async def began(self) -> Player:
        """The lesson's platform is there, or it is known why not."""
        while (screen := self.screen) is None or (not screen.standing.started and screen.standing.trouble is None):
            await self.pilot.pause(_LOOK_S)
        if screen.standing.trouble is not None:
            raise screen.standing.trouble
        return screen.player

    async def go_to(self, step_id: str, kind: Kind = Kind.PAGE) -> None:
        """Until this step is on the screen, on its sheet of this kind; or the lesson's end. Raises Conflict where a
        step on the way does not come out."""
        tried: Counter[str] = Counter()
        while (screen := self.screen) is not None:
            standing, step = screen.standing, screen.player.step
            if step.id == step_id and standing.asked and standing.shown.kind is kind and not standing.busy:
                return
            if tried[step.id] == TRIES and standing.waits:
                unmet = [f"{each.says}: {each.reason}" for each in standing.reply.verdicts if not each.holds]
                why = "; ".join(unmet) or standing.note or "nothing came of it"
                raise Conflict(f"{step.id} was tried {TRIES} times: {why}", param=step.id)
            tried[step.id] += standing.waits
            await self.step()

    async def step(self) -> None:
        """What comes next, and what comes of it."""
        screen = self.screen
        assert screen is not None
        standing, player = screen.standing, screen.player
        step = player.step
        key = "right"
        if standing.waits:
            key = "enter"
            if standing.draft is not None and isinstance(step, Predict | Quiz):
                answer = step.reference if isinstance(step, Predict) else letter(right_option(step))
                await self._answer(screen, answer)
            elif isinstance(step, Check):
                await player.solve()
        await self.pilot.press(key)
        await self.settled()

    async def settled(self) -> None:
        """Nothing goes on any more."""
        await self.pilot.pause(_LOOK_S)
        while (screen := self.screen) is not None and screen.standing.busy:
            self.look(screen)
            await self.pilot.pause(_LOOK_S)

    async def _answer(self, screen: LessonScreen, answer: str) -> None:
        draft = screen.standing.draft
        assert draft is not None
        draft.erase()
        if not draft.by_number and answer in draft.options:
            answer = letter(draft.options.index(answer))
        keys = {".": "full_stop", ",": "comma", "%": "percent_sign"}
        await self.pilot.press(*(keys.get(char, char) for char in answer))
