"""Worker frames as a test reads them."""

from __future__ import annotations

from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.wire.frames import delta_from_wire, tokens_from_wire
from control_plane.contracts.worker import Delta


def deltas_from_wire(frame: pb.WorkerFrame) -> list[Delta]:
    """Everything that a frame says, each call's deltas in order."""
    deltas = [Delta(call, (token_id,), text) for call, token_id, text in tokens_from_wire(frame)]
    deltas.extend(map(delta_from_wire, frame.deltas))
    return deltas
