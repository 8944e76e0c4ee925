"""Latencies of one worker's requests since the last report, as bucket counts."""

from __future__ import annotations

from control_plane.contracts.histogram import bucket_of


class Meter:
    """``itl`` is written to directly, once per token."""

    __slots__ = ("itl", "ttft")

    def __init__(self) -> None:
        self.ttft: dict[int, int] = {}
        self.itl: dict[int, int] = {}

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
