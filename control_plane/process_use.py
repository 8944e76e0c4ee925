"""What processes of this machine use, as ``/proc`` has it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """Resident memory in bytes and CPU time in seconds, summed over processes that live."""

    rss_bytes: int = 0
    cpu_s: float = 0.0


def process_use(pids: Iterable[int]) -> ProcessUse:
    """Pages that forked processes share are counted in each of them."""
    rss, cpu = 0, 0.0
    for pid in pids:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        fields = stat[stat.rindex(")") + 2 :].split()
        cpu += (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
        rss += int(fields[21]) * _PAGE
    return ProcessUse(rss, cpu)
