"""CPU time of processes, from the kernel's own accounts."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

_TICK_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """CPU seconds that the process has used, all its threads.

    ``schedstat`` is exact to the nanosecond but forgets threads that have ended; the ticks of ``stat`` (10 ms) do not.
    The larger one is taken where they differ by more than the ticks' error.
    """
    ticks = _ticks_s(pid)
    exact = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            exact += int((task / "schedstat").read_text().split()[0]) / 1e9
        except OSError:
            continue
    return exact if exact > ticks - 0.05 else ticks


def _ticks_s(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat").read_text()
    fields = stat[stat.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / _TICK_S


class CpuMeter:
    """CPU seconds of some processes since the meter was made."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._before = {pid: cpu_s(pid) for pid in pids}

    def used(self) -> float:
        return sum(cpu_s(pid) - before for pid, before in self._before.items())


def calibration_ns() -> float:
    """CPU time of one turn of a plain loop, in nanoseconds, done in short bursts as a server does its work.

    On a machine that is shared or was slowed down it rises, and every CPU figure with it: two runs compare only where
    it is alike.
    """
    turns, total = 10_000, 0
    used = 0.0
    for _ in range(20):
        time.sleep(0.005)
        before = time.thread_time()
        for number in range(turns):
            total += number * number
        used += time.thread_time() - before
    return used / (20 * turns) * 1e9
