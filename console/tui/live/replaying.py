"""Where a replay stands, for those who draw it."""

from __future__ import annotations

from dataclasses import dataclass

from console.record.player import Standing


@dataclass(frozen=True, slots=True)
class Replaying:
    """``marks`` are what happened in the whole recording: when (unix seconds) and how severe (info, warning, error)."""

    standing: Standing
    marks: tuple[tuple[float, str], ...] = ()
