"""Which live view belongs beside a step, and of what. Pure: it follows from what the step does and measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lessons.actions import POOL, Action, Calls, Cancel, SetPolicy, Wait
from lessons.model import Check, Do, Lesson, Observe, Predict, Show, Step

VIEWS: Final = ("workers", "requests", "engine", "events")
"""The live views that a learner can turn to."""

_ENGINE: Final = frozenset({"blocks", "steps"})
"""Words of a lesson for what is seen inside an engine."""

_INSIDE: Final = frozenset(
    {
        "kv_peak",
        "kv_mean",
        "blocks_peak",
        "blocks_now",
        "batch_peak",
        "waiting_peak",
        "preemptions",
        "engine_tokens",
        "step_time",
    }
)
"""Measures of what an engine does."""

_CALLS: Final = frozenset({"ttft", "gap", "duration", "ended", "error", "tokens", "share", "skew"})
_OF_OTHERS: Final = frozenset({"measured", "ratio"})


@dataclass(frozen=True, slots=True)
class Pin:
    """``view`` is one of VIEWS; ``of`` the worker whose engine it is."""

    view: str
    of: str = ""


def pinned(lesson: Lesson, index: int) -> Pin:
    """The step's own view; else what is looked at before it, and at the beginning what will be."""
    order = (*range(index, -1, -1), *range(index + 1, len(lesson.steps)))
    found = (_own(lesson, lesson.steps[each]) for each in order)
    return next((pin for pin in found if pin is not None), Pin("workers"))


def _own(lesson: Lesson, step: Step) -> Pin | None:
    if isinstance(step, Show):
        return Pin("engine", step.of or _first()) if step.view in _ENGINE else Pin(_known(step.view), step.of)
    if isinstance(step, Predict):
        return _own(lesson, lesson.step(step.about))
    if isinstance(step, Observe):
        return _measured(lesson, step)
    if isinstance(step, Do):
        return _acted(lesson, step.actions)
    return _acted(lesson, step.reference) if isinstance(step, Check) else None


def _known(view: str) -> str:
    return view if view in VIEWS else "workers"


def _first() -> str:
    return f"{POOL}-1"


def _measured(lesson: Lesson, step: Observe) -> Pin | None:
    """Measures of neither engines nor calls leave the view where it is."""
    if lesson.sandbox.replicas > 1:
        return Pin("workers")
    words = {each.measure.word for each in step.measures} - _OF_OTHERS
    if words & _INSIDE:
        return Pin("engine", _first())
    return Pin("requests") if words and words <= _CALLS else None


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
