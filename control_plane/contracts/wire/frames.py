"""Deltas to frames and back, by hand: this runs once per token, where ``convert`` would cost ten times as much."""

from __future__ import annotations

from collections.abc import Iterable

from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.wire.convert import fill, from_wire
from control_plane.contracts.worker import CallError, Delta, Done, Finish, TokenLogprob


def frame_to_wire(seq: int, sent_unix: float, deltas: Iterable[Delta]) -> pb.WorkerFrame:
    """What one step produced, as one frame."""
    frame = pb.WorkerFrame(seq=seq, sent_unix=sent_unix)
    add = frame.deltas.add
    for delta in deltas:
        if delta.choice:
            wire = add(call=delta.call, choice=delta.choice, token_ids=delta.token_ids, text=delta.text)
        else:
            wire = add(call=delta.call, token_ids=delta.token_ids, text=delta.text)
        if delta.logprobs:
            for logprob in delta.logprobs:
                fill(logprob, wire.logprobs.add())
        if delta.finish is not None:
            fill(delta.finish, wire.finish)
        if delta.done is not None:
            fill(delta.done, wire.done)
        if delta.error is not None:
            fill(delta.error, wire.error)
    return frame


def delta_from_wire(wire: pb.Delta) -> Delta:
    delta = Delta(wire.call, tuple(wire.token_ids), wire.text, wire.choice)
    if wire.logprobs:
        delta.logprobs = tuple(from_wire(entry, TokenLogprob) for entry in wire.logprobs)
    if wire.HasField("finish"):
        delta.finish = from_wire(wire.finish, Finish)
    if wire.HasField("done"):
        delta.done = from_wire(wire.done, Done)
    if wire.HasField("error"):
        delta.error = from_wire(wire.error, CallError)
    return delta
