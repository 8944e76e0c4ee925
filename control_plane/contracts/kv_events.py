"""Which KV blocks an engine's prefix cache holds, as it changes: plain values.

Field names equal those of ``v1/worker.proto``, which documents each of them; ``wire`` converts both ways. Hashes are
those of ``block_hash``. ``kv_mirror.KvMirror`` makes the engine's set of them again.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KvEvent:
    """One of three: blocks that can be hit from now on, blocks that cannot any more, or none can."""

    stored: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    cleared: bool = False


@dataclass(frozen=True, slots=True)
class KvBatch:
    """What one engine step changed, or a part of it, in its order. ``seq``: 1, 2, 3, … since the engine started."""

    seq: int
    events: tuple[KvEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class KvSnapshot:
    """All that can be hit after batch ``seq``, or a piece of it: ``more`` pieces follow."""

    seq: int = 0
    hashes: tuple[int, ...] = ()
    more: bool = False


@dataclass(frozen=True, slots=True)
class KvFrame:
    """What a watcher is sent. With a snapshot it begins anew, and the batches after it go on from there.

    ``lost``: batches that this watcher was too slow for; a snapshot stands for them. ``unavailable`` says why there
    are no events, and is the last frame; it is empty where there are.
    """

    instance_id: str = ""
    snapshot: KvSnapshot | None = None
    batches: tuple[KvBatch, ...] = ()
    lost: int = 0
    unavailable: str = ""


def size_of(batch: KvBatch) -> int:
    """The hashes in it."""
    return sum(len(event.stored) + len(event.removed) for event in batch.events)
