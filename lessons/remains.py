"""What steps that are settled left behind on their platform. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lessons.actions import Action, Calls, Cancel, Wait
from lessons.model import Check, Do, Observe, Step


def actions_of(step: Step) -> tuple[Action, ...]:
    """What the step may have done."""
    if isinstance(step, Do | Observe):
        return step.actions
    return step.reference if isinstance(step, Check) else ()


def remains(settled: Sequence[Step]) -> tuple[Action, ...]:
    """What makes a new platform like theirs: changes that last, and calls that the learner left running. Those of an
    experiment went with what was measured."""
    running = left_running(settled)
    return tuple(
        action
        for step in settled
        for action in actions_of(step)
        if action.lasting or (isinstance(step, Do) and any(name in running for name in _in_background(action)))
    )


def left_running(settled: Sequence[Step]) -> tuple[str, ...]:
    """The names of the calls that these steps neither waited for nor ended; a check that is done was about them."""
    running: dict[str, None] = {}
    for step in settled:
        for action in actions_of(step):
            running |= dict.fromkeys(_in_background(action))
            if isinstance(action, Wait) and not action.at_most_s:
                running.clear()
            elif isinstance(action, Cancel):
                running.pop(action.calls, None)
        if isinstance(step, Check):
            running.clear()
    return tuple(running)


def _in_background(action: Action) -> tuple[str, ...]:
    """The names of the calls that it leaves running."""
    return tuple(shape.name for shape in action.calls) if isinstance(action, Calls) and action.background else ()
