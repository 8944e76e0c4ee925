"""What fails in a simulated engine, and when. ``now`` is on one monotonic clock; none is read here."""

from __future__ import annotations

import math

from control_plane.contracts.failure import Failure, FailureKind


class Failures:
    def __init__(self) -> None:
        self._spans: list[tuple[float, float, Failure]] = []

    def add(self, failure: Failure, now: float) -> None:
        begin = now + failure.after_s
        self._spans.append((begin, begin + failure.for_s if failure.for_s else math.inf, failure))

    def clear(self) -> None:
        self._spans.clear()

    def all(self, now: float) -> tuple[Failure, ...]:
        """Those that are not over, begun or not; what is over is forgotten."""
        self._spans = [span for span in self._spans if span[1] > now]
        return tuple(failure for _, _, failure in self._spans)

    def active(self, now: float) -> tuple[Failure, ...]:
        """Those that have begun and are not over."""
        return tuple(failure for begin, end, failure in self._spans if begin <= now < end)

    def on(self, kind: FailureKind, now: float) -> bool:
        return bool(self._spans) and any(failure.kind is kind for failure in self.active(now))

    def slowness(self, now: float) -> float:
        """How many times as long a step takes."""
        if not self._spans:
            return 1.0
        return math.prod(failure.factor for failure in self.active(now) if failure.kind is FailureKind.SLOW)
