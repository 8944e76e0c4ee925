"""Latencies of the last minute, merged from what several routers measured. Times are ``time.monotonic()``."""

from __future__ import annotations

from collections import deque
from typing import Final

from control_plane.contracts.fleet import Histogram, Latency
from control_plane.contracts.histogram import LatencyHistogram

WINDOW_S: Final = 60.0
SLOT_S: Final = 2.0


class RollingLatency:
    """TTFT and ITL over ``WINDOW_S`` seconds, in slots that fall out of the window whole."""

    def __init__(self) -> None:
        self._slots: deque[tuple[float, LatencyHistogram, LatencyHistogram]] = deque()

    def add(self, now: float, ttft: Histogram | None, itl: Histogram | None) -> None:
        if not self._slots or now - self._slots[-1][0] >= SLOT_S:
            self._slots.append((now, LatencyHistogram(), LatencyHistogram()))
        _, ttfts, itls = self._slots[-1]
        if ttft is not None:
            ttfts.merge(LatencyHistogram(ttft.buckets))
        if itl is not None:
            itls.merge(LatencyHistogram(itl.buckets))
        self._expire(now)

    def latency(self, now: float) -> Latency:
        self._expire(now)
        ttft = LatencyHistogram.merged(slot[1] for slot in self._slots)
        itl = LatencyHistogram.merged(slot[2] for slot in self._slots)
        return Latency(
            window_s=WINDOW_S,
            ttft_count=ttft.count,
            ttft_p50=ttft.quantile(0.5),
            ttft_p99=ttft.quantile(0.99),
            itl_count=itl.count,
            itl_p50=itl.quantile(0.5),
            itl_p99=itl.quantile(0.99),
        )

    def _expire(self, now: float) -> None:
        while self._slots and now - self._slots[0][0] > WINDOW_S:
            self._slots.popleft()
