"""Figures of several repetitions, as a table for people and as JSON for machines."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.rows import Figures


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure has to stay under, and the best peer's."""

    row: str
    figure: str
    at_most: float
    best_peer: str


TARGETS = (
    Target("stream_paced", "gateway_cpu_ms_per_1000_chunks", 25.0, "21 (Rust), 49 (Python)"),
    Target("plain_calls", "gateway_cpu_ms_per_1000_calls", 300.0, "77 (Rust), 792 (Python)"),
    Target("ttft", "added_p50_ms", 1.0, "0.23"),
    Target("cancel_decode", "p50_ms", 2.0, "0.3"),
    Target("cancel_prefill", "p50_ms", 2.0, "0.3"),
    Target("cancel_plain", "p50_ms", 2.0, "0.5"),
)


@dataclass(slots=True)
class Report:
    """Every figure of every repetition, by row."""

    rows: dict[str, list[Figures]] = field(default_factory=dict)
    loads: list[float] = field(default_factory=list)

    def add(self, row: str, figures: Figures) -> None:
        self.rows.setdefault(row, []).append(figures)
        self.loads.append(os.getloadavg()[0])

    def median(self, row: str, figure: str) -> float | None:
        values = [figures[figure] for figures in self.rows.get(row, []) if figure in figures]
        return statistics.median(values) if values else None

    def table(self) -> str:
        lines = ["| row | figure | median | range | at most | best peer |", "|---|---|---|---|---|---|"]
        targets = {(target.row, target.figure): target for target in TARGETS}
        for row, repetitions in self.rows.items():
            for figure in repetitions[0]:
                values = sorted(figures[figure] for figures in repetitions)
                target = targets.get((row, figure))
                bound = f"{target.at_most:g}" if target else ""
                peer = target.best_peer if target else ""
                spread = f"{_short(values[0])}-{_short(values[-1])}"
                lines.append(
                    f"| {row} | {figure} | {_short(statistics.median(values))} | {spread} | {bound} | {peer} |"
                )
        return "\n".join(lines)

    def missed(self) -> list[str]:
        """The targets that the medians do not meet; a row that was not run misses nothing."""
        found = []
        for target in TARGETS:
            value = self.median(target.row, target.figure)
            if value is not None and value > target.at_most:
                found.append(f"{target.row} {target.figure}: {_short(value)}, at most {target.at_most:g}")
        return found

    def save(self, path: Path) -> None:
        path.write_text(json.dumps({"machine": machine(), "load1": self.loads, "rows": self.rows}, indent=1) + "\n")


def machine() -> dict[str, Any]:
    return {"cpus": os.cpu_count(), "python": sys.version.split()[0], "kernel": platform.release()}


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
