"""What each worker's load was over the last minutes, for its plot."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from console.tui.live.loads import finite, kv_use, load_now
from control_plane.contracts.fleet import Snapshot

KEPT_S = 600.0
_MOST_SAMPLES = 1500
_CLOSEST_S = 0.4


@dataclass(frozen=True, slots=True)
class Sample:
    """``at`` is the snapshot's time (wall clock); None is what was not known then."""

    at: float
    kv_use: float | None
    tokens_per_s: float | None


class History:
    """A ring of samples per worker id. It only ever grows forward: an older moment can be asked for by its time."""

    def __init__(self) -> None:
        self._rings: dict[str, deque[Sample]] = {}

    def add(self, snapshot: Snapshot) -> None:
        now = snapshot.taken_unix
        for worker in snapshot.workers:
            ring = self._rings.setdefault(worker.id, deque(maxlen=_MOST_SAMPLES))
            since = now - ring[-1].at if ring else _CLOSEST_S
            if since < 0:
                ring.clear()
            elif since < _CLOSEST_S:
                continue
            load = load_now(worker, now)
            ring.append(Sample(now, kv_use(worker, now), finite(load.tokens_per_s) if load is not None else None))
        for gone in [name for name, ring in self._rings.items() if now - ring[-1].at > KEPT_S]:
            del self._rings[gone]

    def forget(self) -> None:
        """Begin anew."""
        self._rings.clear()

    def window(self, worker_id: str, end: float, span_s: float, bins: int) -> list[Sample]:
        """The means of ``bins`` equal stretches up to ``end``, oldest first; a stretch without samples is unknown.

        Stretches are aligned to the clock, so that a curve moves by whole steps and does not flicker. One stretch
        that fell between two samples takes the sample before it.
        """
        ring = self._rings.get(worker_id)
        if not ring or bins <= 0:
            return []
        step = span_s / bins
        last = math.floor(end / step)
        first = last - bins + 1
        groups: list[list[Sample]] = [[] for _ in range(bins)]
        samples = list(ring)
        for sample in self._until(samples, end):
            index = math.floor(sample.at / step) - first
            if index < 0:
                break
            groups[index].append(sample)
        out: list[Sample] = []
        for index, group in enumerate(groups):
            at = (first + index + 0.5) * step
            if not group and index and groups[index - 1] and at - groups[index - 1][0].at < 3.0:
                group = groups[index - 1][:1]
            out.append(Sample(at, _mean([s.kv_use for s in group]), _mean([s.tokens_per_s for s in group])))
        return out

    @staticmethod
    def _until(samples: list[Sample], end: float) -> Iterator[Sample]:
        """Samples at or before ``end``, newest first."""
        for index in range(bisect_right(samples, end, key=lambda sample: sample.at) - 1, -1, -1):
            yield samples[index]


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
