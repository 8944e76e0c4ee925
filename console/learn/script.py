"""A lesson without a learner: its reference answers, its experiments as they come out."""

from __future__ import annotations

from collections.abc import Callable

from console.learn.screen import heading, outcome_lines, paragraph, question, title
from lessons.answers import letter, right_option
from lessons.model import Check, Do, Lesson, Observe, Predict, Quiz, Show
from lessons.player import Player, Reply
from lessons.progress import Progress
from lessons.stage import Stage

Say = Callable[[str], None]

TRIES = 2
"""Of an experiment on a machine that others use too; the first failure is told."""


async def play(lesson: Lesson, stage: Stage, say: Say) -> bool:
    """Whether each check held and each experiment showed its effect. Progress of a learner is not touched."""
    player = Player(lesson, stage, Progress())
    await player.start()
    for line in heading(lesson, player.label):
        say(line)
    good = True
    while True:
        if player.page == 0:
            say("")
            say(title(lesson, player.index, player.label))
        for line in paragraph(player.step.words.pages[player.page]):
            say(line)
        if player.page == len(player.step.words.pages) - 1:
            good &= await _settle(player, say)
        if not await player.forward():
            break
    say("")
    say(f"Lesson {lesson.number}: {'each check held' if good else 'not every check held'}.")
    return good


async def _settle(player: Player, say: Say) -> bool:
    step = player.step
    if isinstance(step, Show):
        _tell(await player.show(), say)
    elif isinstance(step, Predict | Quiz):
        for line in question(step):
            say(line)
        answer = step.reference if isinstance(step, Predict) else letter(right_option(step))
        say(f"   > {answer}{' ' + step.unit if isinstance(step, Predict) and step.asks == 'number' else ''}".rstrip())
        _tell(player.commit(answer), say)
    elif isinstance(step, Do | Observe):
        for action in step.actions:
            say(f"   $ {action.told()}")
        return await _acted(player, say)
    elif isinstance(step, Check):
        for action in step.reference:
            say(f"   $ {action.told()}")
        await player.solve()
        return await _acted(player, say)
    return True


async def _acted(player: Player, say: Say) -> bool:
    for _ in range(TRIES):
        reply = await player.act()
        _tell(reply, say)
        if reply.ok:
            return True
        say(f"   {reply.message}")
    _tell(await player.skip(), say)
    return False


def _tell(reply: Reply, say: Say) -> None:
    for line in outcome_lines(reply):
        say(line)
    if reply.answer:
        for line in paragraph(reply.answer):
            say(line)
