"""Contract dataclasses as bytes and back, for those who keep them: files do not need the generated stubs.

The bytes are the protobuf encoding of the message of the same name, so that anything that reads protobuf can read them.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar, cast

from google.protobuf.message import DecodeError, Message

from control_plane.contracts.decision import DecisionView
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.fleet import Event, Snapshot
from control_plane.contracts.step import BlockSnapshot, StepFrame
from control_plane.contracts.v1 import decision_pb2, operator_pb2, worker_pb2
from control_plane.contracts.wire.convert import from_wire, to_wire
from control_plane.contracts.wire.steps import step_frame_from_wire, step_frame_to_wire

T = TypeVar("T")

_MESSAGES: Final[dict[type[Any], type[Message]]] = {
    Snapshot: operator_pb2.Snapshot,
    Event: operator_pb2.Event,
    DecisionView: decision_pb2.DecisionView,
    StepFrame: worker_pb2.StepFrame,
    BlockSnapshot: worker_pb2.BlockSnapshot,
}


def packed(value: Snapshot | Event | DecisionView | StepFrame | BlockSnapshot) -> bytes:
    """The value in protobuf's encoding."""
    if isinstance(value, StepFrame):
        return step_frame_to_wire(value).SerializeToString()
    return to_wire(value, _MESSAGES[type(value)]).SerializeToString()


def unpacked(data: bytes, cls: type[T]) -> T:
    """What ``packed`` was given. Fields that this version does not know are left out.

    Raises InvalidRequest where the bytes are no such message, or hold an enum's value of a newer version.
    """
    message = _MESSAGES[cls]()
    try:
        message.ParseFromString(data)
        if isinstance(message, worker_pb2.StepFrame):
            return cast(T, step_frame_from_wire(message))
        return from_wire(message, cls)
    except (DecodeError, ValueError) as error:
        raise InvalidRequest(f"these bytes are no {cls.__name__} of this version: {error}") from None
