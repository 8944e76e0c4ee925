"""Latencies of one worker's requests since the last report, as bucket counts."""

from __future__ import annotations

from control_plane.contracts.histogram import bucket_of


class Meter:
    """``add_gap`` runs once per token. The tokens of one frame came after the same gap, so its bucket is remembered."""

    __slots__ = ("_bucket", "_gap", "itl", "ttft")

    def __init__(self) -> None:
        self.ttft: dict[int, int] = {}
        self.itl: dict[int, int] = {}
        self._gap = -1.0
        self._bucket = 0

    def add_gap(self, seconds: float) -> int:
        """Returns the bucket that it was counted in."""
        if seconds != self._gap:
            self._gap = seconds
            self._bucket = bucket_of(seconds)
        bucket, itl = self._bucket, self.itl
        itl[bucket] = itl.get(bucket, 0) + 1
        return bucket

    def add_ttft(self, seconds: float) -> None:
        index = bucket_of(seconds)
        self.ttft[index] = self.ttft.get(index, 0) + 1

    def take(self) -> Meter:
        """What was measured since the last time, and start anew."""
        taken = Meter()
        taken.ttft, self.ttft = self.ttft, {}
        taken.itl, self.itl = self.itl, {}
        return taken

    def put_back(self, taken: Meter) -> None:
        for mine, theirs in ((self.ttft, taken.ttft), (self.itl, taken.itl)):
            for index, count in theirs.items():
                mine[index] = mine.get(index, 0) + count

    def __bool__(self) -> bool:
        return bool(self.ttft or self.itl)
