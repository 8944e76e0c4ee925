"""What is on the words' side, one sheet after the other: the pages of a step, then what came of it, then why. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from lessons.model import Observe, Predict
from lessons.player import Player
from lessons.progress import State


class Kind(Enum):
    PAGE = "page"
    """Words of the step; on its last page also what is asked or done there."""

    RESULT = "result"
    """What was measured, beside what was predicted."""

    ANSWER = "answer"
    """What is right, and why."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """``words`` is Markdown."""

    kind: Kind
    words: str = ""


def sheets(player: Player) -> tuple[Sheet, ...]:
    """Those of the page on which the player stands; what comes after the words of a step belongs to its last page."""
    return tuple(_sheets(player))


def _sheets(player: Player) -> Iterator[Sheet]:
    step = player.step
    yield Sheet(Kind.PAGE, step.words.pages[player.page])
    if player.page < len(step.words.pages) - 1:
        return
    if isinstance(step, Observe) and player.here.state is not State.OPEN:
        if player.here.state is State.DONE:
            yield Sheet(Kind.RESULT)
        for each in player.lesson.steps:
            if isinstance(each, Predict) and each.about == step.id:
                yield Sheet(Kind.ANSWER, each.words.answer)
    if told := player.answer():
        yield Sheet(Kind.ANSWER, told)
