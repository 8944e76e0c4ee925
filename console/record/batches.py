"""What is to be written, until it is: records in frames to come, and how much of them there may be. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from console.record.kinds import Record

FRAME_BYTES: Final = 1 << 20
"""A frame is closed when its records come to this."""
MOST_BYTES: Final = 16 << 20
"""What may wait for the disk."""


@dataclass(slots=True)
class Batch:
    keyframe: bool = False
    records: list[Record] = field(default_factory=list)
    bytes: int = 0


class Batches:
    """Records come in at one end and leave as whole frames at the other, in their order."""

    def __init__(self) -> None:
        self._batches: deque[Batch] = deque([Batch()])
        self._unix = float("-inf")
        self.bytes = 0

    def add(self, record: Record, *, keyframe: bool = False) -> None:
        """``keyframe``: a frame begins with this record. Times that go back are set to the last one."""
        last = self._batches[-1]
        if last.records and (keyframe or last.bytes >= FRAME_BYTES):
            last = Batch()
            self._batches.append(last)
        last.keyframe = last.keyframe or keyframe
        if record.unix < self._unix:
            record = Record(record.kind, self._unix, record.payload, record.subject)
        self._unix = record.unix
        size = len(record.payload) + len(record.subject) + 16
        last.records.append(record)
        last.bytes += size
        self.bytes += size

    @property
    def last_unix(self) -> float:
        """The time of the newest record."""
        return self._unix

    def begin_at(self, unix: float) -> None:
        """No record is older than this."""
        self._unix = max(self._unix, unix)

    @property
    def full(self) -> bool:
        """Whether whoever adds should wait."""
        return self.bytes >= MOST_BYTES

    @property
    def frame_ready(self) -> bool:
        return self.bytes >= FRAME_BYTES

    def sealed(self) -> tuple[Batch, ...]:
        """Everything that waits, as frames that take no more records. They wait until they are ``written``."""
        if self._batches[-1].records:
            self._batches.append(Batch())
        return tuple(self._batches)[:-1]

    def written(self, batch: Batch) -> None:
        """The oldest one need not wait any more."""
        assert self._batches[0] is batch
        self._batches.popleft()
        self.bytes -= batch.bytes
