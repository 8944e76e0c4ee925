"""Deltas to frames and back, by hand: this runs once per token, where ``convert`` would cost ten times as much."""

from __future__ import annotations

from collections.abc import Iterable

from control_plane.contracts.v1 import worker_pb2 as pb
from control_plane.contracts.wire.convert import fill, from_wire
from control_plane.contracts.worker import CallError, Delta, Done, Finish, FinishReason, Stages, TokenLogprob


def frame_to_wire(seq: int, sent_unix: float, deltas: Iterable[Delta]) -> pb.WorkerFrame:
    """What one step produced, as one frame. The order is kept within each call, not between calls."""
    frame = pb.WorkerFrame(seq=seq, sent_unix=sent_unix)
    fill_frame(frame, deltas)
    return frame


def fill_frame(frame: pb.WorkerFrame, deltas: Iterable[Delta]) -> None:
    """Into a frame that has no deltas yet."""
    calls: list[int] = []
    token_ids: list[int] = []
    texts: list[str] = []
    others: list[Delta] = []
    said: set[int] = set()
    for delta in deltas:
        ids = delta.token_ids
        if (
            len(ids) != 1
            or delta.choice
            or delta.finish is not None
            or delta.done is not None
            or delta.error is not None
            or delta.logprobs
            or delta.call in said
        ):
            others.append(delta)
            said.add(delta.call)
        else:
            calls.append(delta.call)
            token_ids.append(ids[0])
            texts.append(delta.text)
    if calls:
        frame.token_calls.extend(calls)
        frame.token_ids.extend(token_ids)
        frame.token_texts.extend(texts)
    for delta in others:
        _add(frame, delta)


def _add(frame: pb.WorkerFrame, delta: Delta) -> None:
    wire = frame.deltas.add(call=delta.call, choice=delta.choice, token_ids=delta.token_ids, text=delta.text)
    for logprob in delta.logprobs:
        fill(logprob, wire.logprobs.add())
    if delta.finish is not None:
        fill(delta.finish, wire.finish)
    if delta.done is not None:
        fill(delta.done, wire.done)
    if delta.error is not None:
        fill(delta.error, wire.error)


def tokens_from_wire(frame: pb.WorkerFrame) -> Iterable[tuple[int, int, str]]:
    """Call, token id and text of each delta that is nothing else; they come before the frame's other deltas."""
    return zip(frame.token_calls[:], frame.token_ids[:], frame.token_texts[:], strict=True)


def delta_from_wire(wire: pb.Delta) -> Delta:
    """One of a frame's other deltas."""
    delta = Delta(wire.call, tuple(wire.token_ids), wire.text, wire.choice)
    if wire.logprobs:
        delta.logprobs = tuple(from_wire(entry, TokenLogprob) for entry in wire.logprobs)
    if wire.HasField("finish"):
        finish = wire.finish
        stop_token_id = finish.stop_token_id if finish.HasField("stop_token_id") else None
        delta.finish = Finish(FinishReason(finish.reason), finish.output_tokens, finish.stop_text, stop_token_id)
    if wire.HasField("done"):
        done, stages = wire.done, wire.done.stages
        delta.done = Done(
            done.prompt_tokens,
            done.cached_tokens,
            done.output_tokens,
            Stages(stages.received_unix, stages.queued_s, stages.prefill_s, stages.decode_s, stages.preemptions),
        )
    if wire.HasField("error"):
        delta.error = from_wire(wire.error, CallError)
    return delta
