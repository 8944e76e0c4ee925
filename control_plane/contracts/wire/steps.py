"""Engine steps to the wire and back, by hand: a step has a row for each request of its batch, and ``convert`` would
take several times as long, in the loop that serves the requests. A step goes to every watcher, so it is converted once
and copied from then on.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.step import (
    BlockSnapshot,
    EngineStep,
    StepFinished,
    StepFrame,
    StepKind,
    StepRow,
    StepWaiting,
    TraceMode,
    TraceState,
)
from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.wire.convert import fill, from_wire

KEPT: Final = 512
"""Steps that are kept converted."""

KEPT_ROWS: Final = 16_384
"""Their rows."""

_KINDS: Final = {kind.value: kind for kind in StepKind}


def trace_mode(number: int) -> TraceMode:
    """Raises InvalidRequest for a mode of another version."""
    try:
        return TraceMode(number)
    except ValueError:
        raise InvalidRequest(f"there is no trace mode {number}", param="mode") from None


def step_to_wire(step: EngineStep) -> pb.EngineStep:
    wire = pb.EngineStep(
        step=step.step,
        started_unix=step.started_unix,
        schedule_s=step.schedule_s,
        execute_s=step.execute_s,
        tokens=step.tokens,
        waiting_total=step.waiting_total,
        preempted=step.preempted,
        total_blocks=step.total_blocks,
        used_blocks=step.used_blocks,
        cached_free_blocks=step.cached_free_blocks,
        free_blocks=step.free_blocks,
        dropped=step.dropped,
        batch=step.batch,
    )
    add = wire.rows.add
    for row in step.rows:
        # Assigned one by one, and not at all where most rows have nothing: half the cost of keyword arguments.
        to = add()
        to.request_id = row.request_id
        to.kind = row.kind.value  # type: ignore[assignment]
        to.tokens = row.tokens
        to.computed = row.computed
        to.prompt_tokens = row.prompt_tokens
        to.output_tokens = row.output_tokens
        to.cached_tokens = row.cached_tokens
        to.blocks = row.blocks
        if row.priority:
            to.priority = row.priority
        if row.joined:
            to.joined = True
        if row.resumed:
            to.resumed = True
        if row.new_blocks:
            to.new_blocks.extend(row.new_blocks)
    for waiting in step.waiting:
        wire.waiting.add(
            request_id=waiting.request_id,
            tokens=waiting.tokens,
            priority=waiting.priority,
            preempted=waiting.preempted,
        )
    for finished in step.finished:
        wire.finished.add(
            request_id=finished.request_id,
            reason=finished.reason,
            output_tokens=finished.output_tokens,
            freed_blocks=finished.freed_blocks,
        )
    return wire


def step_from_wire(wire: pb.EngineStep) -> EngineStep:
    """Raises ValueError for a row's kind of another version."""
    return EngineStep(
        wire.step,
        wire.started_unix,
        wire.schedule_s,
        wire.execute_s,
        wire.tokens,
        tuple([_row(row) for row in wire.rows]),
        tuple([StepWaiting(each.request_id, each.tokens, each.priority, each.preempted) for each in wire.waiting]),
        wire.waiting_total,
        tuple(wire.preempted),
        tuple(
            [
                StepFinished(each.request_id, each.reason, each.output_tokens, each.freed_blocks)
                for each in wire.finished
            ]
        ),
        wire.total_blocks,
        wire.used_blocks,
        wire.cached_free_blocks,
        wire.free_blocks,
        wire.dropped,
        wire.batch,
    )


def _row(row: pb.StepRow) -> StepRow:
    kind = _KINDS.get(row.kind)
    if kind is None:
        raise ValueError(f"there is no kind {row.kind} of a row")
    return StepRow(
        row.request_id,
        kind,
        row.tokens,
        row.computed,
        row.prompt_tokens,
        row.output_tokens,
        row.cached_tokens,
        row.priority,
        row.joined,
        row.resumed,
        tuple(row.new_blocks),
        row.blocks,
    )


def step_frame_to_wire(frame: StepFrame) -> pb.StepFrame:
    message = _head(frame)
    message.steps.extend(step_to_wire(step) for step in frame.steps)
    return message


def step_frame_from_wire(wire: pb.StepFrame) -> StepFrame:
    """Raises ValueError for an enum's value of another version."""
    return StepFrame(
        tuple([step_from_wire(step) for step in wire.steps]),
        from_wire(wire.trace, TraceState) if wire.HasField("trace") else TraceState(),
        from_wire(wire.base, BlockSnapshot) if wire.HasField("base") else None,
    )


class StepFrames:
    """For the watchers of one engine, whose step numbers are unique and whose steps are whole."""

    def __init__(self) -> None:
        self._steps: OrderedDict[int, pb.EngineStep] = OrderedDict()
        self._rows = 0

    def to_wire(self, frame: StepFrame) -> pb.StepFrame:
        message = _head(frame)
        message.steps.extend(self._step(step) for step in frame.steps)
        return message

    def _step(self, step: EngineStep) -> pb.EngineStep:
        found = self._steps.get(step.step)
        if found is None:
            found = self._steps[step.step] = step_to_wire(step)
            self._rows += len(step.rows)
            while len(self._steps) > KEPT or (self._rows > KEPT_ROWS and len(self._steps) > 1):
                self._rows -= len(self._steps.popitem(last=False)[1].rows)
        return found


def _head(frame: StepFrame) -> pb.StepFrame:
    """All but the steps."""
    message = pb.StepFrame()
    fill(frame.trace, message.trace)
    message.trace.SetInParent()
    if frame.base is not None:
        fill(frame.base, message.base)
        message.base.SetInParent()
    return message
