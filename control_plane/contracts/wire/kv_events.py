"""KV events to the wire and back, by hand: they come with every engine step, and ``convert`` would take several times
as long, in the loop that serves the requests."""

from __future__ import annotations

from control_plane.contracts.kv_events import KvBatch, KvEvent, KvFrame, KvSnapshot
from control_plane.contracts.v1 import worker_pb2 as pb


def kv_frame_to_wire(frame: KvFrame) -> pb.KvFrame:
    message = pb.KvFrame(instance_id=frame.instance_id, lost=frame.lost, unavailable=frame.unavailable)
    if frame.snapshot is not None:
        snapshot = message.snapshot
        snapshot.SetInParent()
        snapshot.seq = frame.snapshot.seq
        snapshot.hashes.extend(frame.snapshot.hashes)
        snapshot.more = frame.snapshot.more
    for batch in frame.batches:
        to = message.batches.add(seq=batch.seq)
        for event in batch.events:
            to.events.add(stored=event.stored, removed=event.removed, cleared=event.cleared)
    return message


def kv_frame_from_wire(wire: pb.KvFrame) -> KvFrame:
    snapshot = None
    if wire.HasField("snapshot"):
        snapshot = KvSnapshot(wire.snapshot.seq, tuple(wire.snapshot.hashes), wire.snapshot.more)
    return KvFrame(
        wire.instance_id,
        snapshot,
        tuple(
            [
                KvBatch(
                    batch.seq,
                    tuple(
                        [KvEvent(tuple(event.stored), tuple(event.removed), event.cleared) for event in batch.events]
                    ),
                )
                for batch in wire.batches
            ]
        ),
        wire.lost,
        wire.unavailable,
    )
