"""What a step has of one request: for those who ask about it alone. Pure."""

from __future__ import annotations

import dataclasses

from control_plane.contracts.choice import choice_of
from control_plane.contracts.step import EngineStep, StepKind


def concerning(step: EngineStep, request_id: str) -> EngineStep | None:
    """The step with the rows, the preemptions and the ends of the request and its choices, and with the largest prefill
    of another request beside them, which a long step is long for. ``batch`` tells how many rows ran. None where the
    step has nothing of the request.
    """

    def is_it(name: str) -> bool:
        # Most names are others', in the rows of thousands of steps.
        return name.startswith(request_id) and choice_of(name, request_id) is not None

    own = {row.request_id for row in step.rows if is_it(row.request_id)}
    preempted = tuple(name for name in step.preempted if is_it(name))
    finished = tuple(each for each in step.finished if is_it(each.request_id))
    if not (own or preempted or finished):
        return None
    others = (row for row in step.rows if row.kind is not StepKind.DECODE and row.request_id not in own)
    beside = max(others, key=lambda row: row.tokens, default=None) if own else None
    rows = tuple(row for row in step.rows if row.request_id in own or row is beside)
    return dataclasses.replace(
        step,
        rows=rows,
        waiting=(),
        preempted=preempted,
        finished=finished,
        batch=step.batch or len(step.rows),
    )
