"""What a call has used up, over all the models that it was given to: another model is no new beginning."""

from __future__ import annotations

import time
from collections.abc import Callable

from control_plane.contracts.fleet import Stage


class Patience:
    """``whole_s``: how long the call may wait for workers, None for as long as it takes. ``attempts``: how often it was
    tried anew. ``stages``: its waits for models that it has left, since ``arrival_mono`` (monotonic seconds, as all
    times here)."""

    __slots__ = ("_arrival_mono", "_clock", "_since", "_whole_s", "attempts", "stages")

    def __init__(self, whole_s: float | None, arrival_mono: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._whole_s = whole_s
        self._arrival_mono = arrival_mono
        self._clock = clock
        self._since: float | None = None
        self.attempts = 0
        self.stages: tuple[Stage, ...] = ()

    def left_s(self) -> float | None:
        """How long it may still wait for a worker; the first time that this is asked, its wait begins."""
        now = self._clock()
        if self._since is None:
            self._since = now
        return None if self._whole_s is None else max(0.0, self._whole_s - (now - self._since))

    def leaves(self, waited_since: float, attempts: int, *, anew: bool) -> None:
        """It goes to another model, after ``attempts`` in all. ``anew``: a worker had it in between, so that its wait
        has begun anew."""
        self.attempts = attempts
        if anew:
            self._since = waited_since
        self.stages += (Stage("queue", waited_since - self._arrival_mono, self._clock() - waited_since),)
