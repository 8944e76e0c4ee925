"""Measures of engines, step by step. Pure; see ``measures``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from control_plane.contracts.step import EngineStep
from lessons.observation import Observation, Value
from lessons.statistic import Stat, statistic, summed


def _steps(seen: Observation, worker: str) -> list[tuple[EngineStep, ...]]:
    """The steps of a worker, or of each; none where some were lost, since a peak may be among them."""
    if seen.lost_steps:
        return []
    return [steps for name, steps in seen.steps.items() if steps and (not worker or name == worker)]


def _peak(seen: Observation, worker: str, tell: Callable[[EngineStep], float]) -> float | None:
    return max((tell(step) for steps in _steps(seen, worker) for step in steps), default=None)


def _usage(step: EngineStep) -> float:
    return step.used_blocks / step.total_blocks if step.total_blocks else 0.0


@dataclass(frozen=True, slots=True)
class KvPeak:
    """The fullest that the worker's KV cache was at any engine step; without a worker, that of any."""

    word: ClassVar[str] = "kv_peak"
    unit: ClassVar[str] = "%"
    worker: str = ""

    def read(self, seen: Observation) -> Value | None:
        return _peak(seen, self.worker, _usage)


@dataclass(frozen=True, slots=True)
class KvMean:
    """KV-cache use, the mean over the engine steps of the worker (of all): how full it is while it works."""

    word: ClassVar[str] = "kv_mean"
    unit: ClassVar[str] = "%"
    worker: str = ""

    def read(self, seen: Observation) -> Value | None:
        return statistic([_usage(step) for steps in _steps(seen, self.worker) for step in steps], "mean")


@dataclass(frozen=True, slots=True)
class BlocksPeak:
    """The most KV blocks in use at any engine step of a worker."""

    word: ClassVar[str] = "blocks_peak"
    unit: ClassVar[str] = "blocks"
    worker: str = ""

    def read(self, seen: Observation) -> Value | None:
        return _peak(seen, self.worker, lambda step: float(step.used_blocks))


@dataclass(frozen=True, slots=True)
class BlocksNow:
    """KV blocks in use now, out of the engine; without a worker, of all together. ``total``: those that there are."""

    word: ClassVar[str] = "blocks_now"
    unit: ClassVar[str] = "blocks"
    worker: str = ""
    total: bool = False

    def read(self, seen: Observation) -> Value | None:
        found = [blocks for name, blocks in seen.blocks.items() if not self.worker or name == self.worker]
        return summed(blocks.total_blocks if self.total else blocks.used_blocks for blocks in found)


@dataclass(frozen=True, slots=True)
class Fullest:
    """The worker whose KV cache was fullest at any step; None where two were equally full."""

    word: ClassVar[str] = "fullest"
    unit: ClassVar[str] = ""

    def read(self, seen: Observation) -> Value | None:
        peaks = {name: _peak(seen, name, _usage) for name in seen.steps}
        known = {name: peak for name, peak in peaks.items() if peak is not None}
        best = [name for name, peak in known.items() if peak == max(known.values())]
        return best[0] if len(best) == 1 else None


@dataclass(frozen=True, slots=True)
class KvSpread:
    """The fullest worker's KV-cache use against the emptiest one's, means over their steps. Workers without steps, and
    a cache that was never used, tell nothing."""

    word: ClassVar[str] = "kv_spread"
    unit: ClassVar[str] = "×"

    def read(self, seen: Observation) -> Value | None:
        means = [statistic([_usage(step) for step in steps], "mean") or 0.0 for steps in _steps(seen, "")]
        return max(means) / min(means) if len(means) > 1 and min(means) > 0 else None


@dataclass(frozen=True, slots=True)
class Slowest:
    """The worker whose engine steps took longest, by their median; None where there is nobody to compare with."""

    word: ClassVar[str] = "slowest"
    unit: ClassVar[str] = ""

    def read(self, seen: Observation) -> Value | None:
        if seen.lost_steps:
            return None
        medians = {
            name: statistic([step.execute_s for step in steps], "p50") or 0.0
            for name, steps in seen.steps.items()
            if steps
        }
        best = [name for name, median in medians.items() if median == max(medians.values())]
        return best[0] if len(medians) > 1 and len(best) == 1 else None


@dataclass(frozen=True, slots=True)
class BatchPeak:
    """The most requests in one engine step; ``added``: of each worker, added up."""

    word: ClassVar[str] = "batch_peak"
    unit: ClassVar[str] = "requests"
    worker: str = ""
    added: bool = False

    def read(self, seen: Observation) -> Value | None:
        peaks = [max(float(step.batch or len(step.rows)) for step in steps) for steps in _steps(seen, self.worker)]
        return (sum(peaks) if self.added else max(peaks)) if peaks else None


@dataclass(frozen=True, slots=True)
class WaitingPeak:
    """The most requests that waited inside an engine at one step."""

    word: ClassVar[str] = "waiting_peak"
    unit: ClassVar[str] = "requests"
    worker: str = ""

    def read(self, seen: Observation) -> Value | None:
        return _peak(seen, self.worker, lambda step: float(step.waiting_total))


@dataclass(frozen=True, slots=True)
class Preemptions:
    """How often an engine put a running request back to waiting."""

    word: ClassVar[str] = "preemptions"
    unit: ClassVar[str] = "times"
    worker: str = ""

    def read(self, seen: Observation) -> Value | None:
        return summed(len(step.preempted) for steps in _steps(seen, self.worker) for step in steps)


@dataclass(frozen=True, slots=True)
class EngineTokens:
    """Tokens that engines generated for requests that ended in these steps, whether or not somebody read them.

    ``reason`` narrows to requests that ended so: stop, length, abort or error.
    """

    word: ClassVar[str] = "engine_tokens"
    unit: ClassVar[str] = "tokens"
    reason: Literal["", "stop", "length", "abort", "error"] = ""

    def read(self, seen: Observation) -> Value | None:
        return summed(
            each.output_tokens
            for steps in _steps(seen, "")
            for step in steps
            for each in step.finished
            if not self.reason or each.reason == self.reason
        )


@dataclass(frozen=True, slots=True)
class StepTime:
    """How long engine steps took."""

    word: ClassVar[str] = "step_time"
    unit: ClassVar[str] = "s"
    worker: str = ""
    stat: Stat = "p50"

    def read(self, seen: Observation) -> Value | None:
        return statistic([step.execute_s for steps in _steps(seen, self.worker) for step in steps], self.stat)
