"""Which live view belongs beside a step, and of what. Pure: it follows from what the step does and measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from console.tui.live.part import Part
from lessons.actions import POOL, Action, Calls, Cancel, SetPolicy, Wait
from lessons.measures import CallMeasure, InsideMeasure, KnownMeasure
from lessons.model import Check, Do, Lesson, Observe, Predict, Show, Step

VIEWS: Final = ("workers", "requests", "engine", "events")
"""The live views that a learner can turn to."""

TOLD: Final = "told"
"""What no live view shows: a lesson's own lines, of one call, of a text, or for another program."""

_ENGINE: Final = frozenset({"blocks", "steps"})
"""Words of a lesson for what is seen inside an engine."""


@dataclass(frozen=True, slots=True)
class Pin:
    """``view`` is one of VIEWS, ``of`` the worker whose engine it is, ``part`` what of it is looked at; or TOLD, ``of``
    the lesson's word for it."""

    view: str
    of: str = ""
    part: Part = Part.ALL


def pinned(lesson: Lesson, index: int) -> Pin:
    """The step's own view; else what is looked at before it, and at the beginning what will be. What is told is only
    its own step's, and so is what stands still."""
    order = (*range(index, -1, -1), *range(index + 1, len(lesson.steps)))
    found = ((each, _here(lesson, each, index)) for each in order)
    fits = (pin for each, pin in found if pin is not None and (pin.view != TOLD or each == index))
    return next(fits, Pin("workers"))


def _here(lesson: Lesson, at: int, index: int) -> Pin | None:
    """Of the step at ``at``, for the one at ``index``."""
    pin = _own(lesson, lesson.steps[at])
    return replace(pin, part=Part.ALL) if pin is not None and pin.part is Part.STEPS and at != index else pin


def _own(lesson: Lesson, step: Step) -> Pin | None:
    if isinstance(step, Show):
        if step.view in _ENGINE:
            return Pin("engine", step.of or _first(), Part(step.view))
        return Pin(step.view, step.of) if step.view in VIEWS else Pin(TOLD, step.view)
    if isinstance(step, Predict):
        return _own(lesson, lesson.step(step.about))
    if isinstance(step, Observe):
        return _measured(lesson, step)
    if isinstance(step, Do):
        return _acted(lesson, step.actions)
    return _acted(lesson, step.reference) if isinstance(step, Check) else None


def _first() -> str:
    return f"{POOL}-1"


def _measured(lesson: Lesson, step: Observe) -> Pin | None:
    """Measures of neither engines nor calls leave the view where it is."""
    if lesson.sandbox.replicas > 1:
        return Pin("workers")
    measures = [each.measure for each in step.measures if not isinstance(each.measure, KnownMeasure)]
    if any(isinstance(each, InsideMeasure) for each in measures):
        return Pin("engine", _first())
    return Pin("requests") if measures and all(isinstance(each, CallMeasure) for each in measures) else None


def _acted(lesson: Lesson, actions: Sequence[Action]) -> Pin | None:
    """What is cancelled is a request, what is called goes to engines, and most else is about workers. A policy shows
    nowhere."""
    kinds = {type(action) for action in actions}
    if kinds <= {SetPolicy, Wait}:
        return None
    if Cancel in kinds:
        return Pin("requests")
    if kinds <= {Calls, SetPolicy, Wait}:
        return Pin("workers") if lesson.sandbox.replicas > 1 else Pin("engine", _first())
    return Pin("workers")
