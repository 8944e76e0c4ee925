"""Frames of engine steps to the wire. A step goes to every watcher, so it is converted once and copied from then on."""

from __future__ import annotations

from collections import OrderedDict

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.step import EngineStep, StepFrame, TraceMode
from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.wire.convert import fill, to_wire

KEPT = 512
"""Steps that are kept converted."""


def trace_mode(number: int) -> TraceMode:
    """Raises InvalidRequest for a mode of another version."""
    try:
        return TraceMode(number)
    except ValueError:
        raise InvalidRequest(f"there is no trace mode {number}", param="mode") from None


class StepFrames:
    """For the watchers of one engine, whose step numbers are unique."""

    def __init__(self) -> None:
        self._steps: OrderedDict[int, pb.EngineStep] = OrderedDict()

    def to_wire(self, frame: StepFrame) -> pb.StepFrame:
        message = pb.StepFrame()
        message.steps.extend(self._step(step) for step in frame.steps)
        fill(frame.trace, message.trace)
        message.trace.SetInParent()
        if frame.base is not None:
            fill(frame.base, message.base)
            message.base.SetInParent()
        return message

    def _step(self, step: EngineStep) -> pb.EngineStep:
        found = self._steps.get(step.step)
        if found is None:
            found = self._steps[step.step] = to_wire(step, pb.EngineStep)
            if len(self._steps) > KEPT:
                self._steps.popitem(last=False)
        return found
