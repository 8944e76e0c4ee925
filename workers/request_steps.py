"""What a step has of one request: for those who ask about it alone. Pure."""

from __future__ import annotations

import dataclasses

from control_plane.contracts.choice import choice_of
from control_plane.contracts.step import EngineStep, StepKind, StepRow


def concerning(step: EngineStep, request_id: str) -> EngineStep | None:
    """The step with the rows, the preemptions and the ends of the request and its choices, and with the largest prefill
    of another request beside them, which a long step is long for. ``batch`` tells how many rows ran. None where the
    step has nothing of the request.
    """

    # Most rows of thousands of steps are others': they are passed over without a call.
    close = {row.request_id for row in step.rows if row.request_id.startswith(request_id)}
    own = {name for name in close if choice_of(name, request_id) is not None}
    preempted = tuple(name for name in step.preempted if choice_of(name, request_id) is not None)
    finished = tuple(each for each in step.finished if choice_of(each.request_id, request_id) is not None)
    if not (own or preempted or finished):
        return None
    rows: list[StepRow] = []
    if own:
        rows = [row for row in step.rows if row.request_id in own or row.kind is not StepKind.DECODE]
        others = (row for row in rows if row.request_id not in own)
        beside = max(others, key=lambda row: row.tokens, default=None)
        rows = [row for row in rows if row.request_id in own or row is beside]
    return dataclasses.replace(
        step,
        rows=tuple(rows),
        waiting=(),
        preempted=preempted,
        finished=finished,
        batch=step.batch or len(step.rows),
    )
