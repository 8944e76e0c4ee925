"""Counts since the engine started."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Totals:
    generated: int = 0
    prompt: int = 0
    cached: int = 0
    preemptions: int = 0
    steps: int = 0
