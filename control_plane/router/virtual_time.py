"""Start-time fair queueing: who has had least is next, and nobody saves up while away. Pure.

Each name has a virtual time, which grows with what it is served; the clock is the time of whoever was served last from
the queue. Goyal, Vin, Cheng, "Start-time Fair Queueing", SIGCOMM 1996.
"""

from __future__ import annotations

from collections.abc import Container

REMEMBERED = 1024
"""Names that wait for nothing but are ahead of the clock; beyond this many the least ahead are forgotten."""


class VirtualTime:
    def __init__(self) -> None:
        self._clock = 0.0
        self._times: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._times)

    def __getitem__(self, name: str) -> float:
        return self._times.get(name, self._clock)

    def enter(self, name: str) -> None:
        """It begins to wait: where it was away, what it did not use meanwhile is gone."""
        self._times[name] = max(self[name], self._clock)

    def serve(self, name: str, amount: float, *, waited: bool) -> None:
        """It gets so much, out of the queue or past it."""
        time = self[name]
        if waited:
            self._clock = max(self._clock, time)
        else:
            time = max(time, self._clock)
        self._times[name] = time + amount

    def correct(self, name: str, amount: float) -> None:
        """What it was served turned out to be so much more, or less where it is negative."""
        self._times[name] = self[name] + amount

    def prune(self, waiting: Container[str]) -> None:
        """Forget names that do not wait and would begin at the clock anyway."""
        if len(self._times) < 2 * REMEMBERED:
            return
        kept = {name: time for name, time in self._times.items() if name in waiting or time > self._clock}
        idle = sorted((name for name in kept if name not in waiting), key=kept.__getitem__)
        for name in idle[: max(0, len(idle) - REMEMBERED)]:
            del kept[name]
        self._times = kept
