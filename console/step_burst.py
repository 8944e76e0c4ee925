"""Where to begin to look at what an engine did: indexes into its steps. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from control_plane.contracts.step import EngineStep, StepKind

BEFORE: Final = 4
"""Steps that are shown before the one of note."""

_PROMPT: Final = frozenset({StepKind.PREFILL, StepKind.LAST_PREFILL})


def burst(steps: Sequence[EngineStep]) -> int:
    """The first step after the last one that left nothing to do, but for that of the end."""
    running: set[str] = set()
    begin = 0
    for index, step in enumerate(steps):
        if not running and not (index and steps[index - 1].waiting_total):
            begin = index
        running |= {row.request_id for row in step.rows}
        running -= {*step.preempted, *(each.request_id for each in step.finished)}
    return begin


def of_note(steps: Sequence[EngineStep], begin: int = 0) -> int:
    """The first step from ``begin`` on that preempted somebody; without one, the first that computed a prompt beside
    somebody's decode; without that, ``begin``."""
    for found in (_preempts, _mixes):
        for index in range(begin, len(steps)):
            if found(steps[index]):
                return index
    return begin


def _preempts(step: EngineStep) -> bool:
    return bool(step.preempted)


def _mixes(step: EngineStep) -> bool:
    kinds = {row.kind for row in step.rows}
    return StepKind.DECODE in kinds and bool(kinds & _PROMPT)
