"""Where a replay stands: a place in recorded time that moves with real time. Pure: ``now`` is any steady clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SPEEDS: Final = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True, slots=True)
class Standing:
    """A replay at one moment; times are recorded unix seconds."""

    at: float
    first: float
    last: float
    playing: bool
    speed: float

    @property
    def elapsed(self) -> float:
        return self.at - self.first

    @property
    def total(self) -> float:
        return self.last - self.first

    @property
    def ended(self) -> bool:
        return self.at >= self.last


class Player:
    """Plays from ``first`` to ``last`` and stops there."""

    def __init__(self, first: float, last: float, *, speed: float = 1.0, playing: bool = True) -> None:
        self._first, self._last = first, max(first, last)
        self._at = first
        self._since: float | None = None
        self._playing = playing
        self._speed = speed

    def standing(self, now: float) -> Standing:
        self._move(now)
        return Standing(self._at, self._first, self._last, self._playing, self._speed)

    def play(self, now: float) -> None:
        """Go on; from the beginning where it had come to the end."""
        self._move(now)
        if self._at >= self._last:
            self._at = self._first
        self._playing, self._since = True, now

    def pause(self, now: float) -> None:
        self._move(now)
        self._playing = False

    def seek(self, unix: float, now: float) -> None:
        """To this time, or as near as the recording has it."""
        self._move(now)
        self._at = min(max(unix, self._first), self._last)

    def speed(self, speed: float, now: float) -> None:
        """At most the fastest of SPEEDS, at least the slowest."""
        self._move(now)
        self._speed = min(max(speed, SPEEDS[0]), SPEEDS[-1])

    def faster(self, by: int, now: float) -> None:
        """So many places up in SPEEDS, or down."""
        self._move(now)
        nearest = min(range(len(SPEEDS)), key=lambda index: abs(SPEEDS[index] - self._speed))
        self._speed = SPEEDS[min(max(nearest + by, 0), len(SPEEDS) - 1)]

    def _move(self, now: float) -> None:
        since, self._since = self._since, now
        if self._playing and since is not None:
            self._at = min(self._last, self._at + max(0.0, now - since) * self._speed)
            if self._at >= self._last:
                self._playing = False
