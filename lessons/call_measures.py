"""Measures of calls, as their clients saw them. Pure; see ``measures``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from lessons.observation import CallSeen, Observation, Value
from lessons.statistic import Stat, statistic, summed


def calls_of(seen: Observation, name: str) -> list[CallSeen]:
    """The calls of this name; all without one."""
    return [call for call in seen.calls if not name or call.name == name]


def the_one(values: Iterable[Value]) -> Value | None:
    """What all of them are; "several" where they differ, None where there are none."""
    found = set(values)
    return (found.pop() if len(found) == 1 else "several") if found else None


@dataclass(frozen=True, slots=True)
class Ttft:
    """Time to first token of the calls of this name (all without one), by the client's stopwatch."""

    word: ClassVar[str] = "ttft"
    unit: ClassVar[str] = "s"
    calls: str = ""
    stat: Stat = "p50"

    def read(self, seen: Observation) -> Value | None:
        return statistic([call.ttft_s for call in calls_of(seen, self.calls) if call.ttft_s is not None], self.stat)


@dataclass(frozen=True, slots=True)
class Gap:
    """Gaps between pieces of text, of all these calls together: inter-token latency as the client has it."""

    word: ClassVar[str] = "gap"
    unit: ClassVar[str] = "s"
    calls: str = ""
    stat: Stat = "p50"

    def read(self, seen: Observation) -> Value | None:
        return statistic([gap for call in calls_of(seen, self.calls) for gap in call.gaps_s], self.stat)


@dataclass(frozen=True, slots=True)
class Stall:
    """The longest gap between pieces of text of these calls, against their median one."""

    word: ClassVar[str] = "stall"
    unit: ClassVar[str] = "×"
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        gaps = [gap for call in calls_of(seen, self.calls) for gap in call.gaps_s]
        typical = statistic(gaps, "p50")
        return max(gaps) / typical if typical else None


@dataclass(frozen=True, slots=True)
class Duration:
    """From a call's start to its end, of those that were answered in full."""

    word: ClassVar[str] = "duration"
    unit: ClassVar[str] = "s"
    calls: str = ""
    stat: Stat = "p50"

    def read(self, seen: Observation) -> Value | None:
        return statistic([call.duration_s for call in calls_of(seen, self.calls) if call.ok], self.stat)


@dataclass(frozen=True, slots=True)
class Ended:
    """How many of these calls ended so: "ok", "left" (their client closed them), "failed", or any way."""

    word: ClassVar[str] = "ended"
    unit: ClassVar[str] = "calls"
    calls: str = ""
    how: Literal["any", "ok", "left", "failed"] = "any"

    def read(self, seen: Observation) -> Value | None:
        return summed(int(self.how in ("any", _how(call))) for call in calls_of(seen, self.calls))


def _how(call: CallSeen) -> str:
    return "left" if call.left else "ok" if call.ok else "failed"


@dataclass(frozen=True, slots=True)
class Error:
    """The code that all of these calls were told; "none" where none was told any, "several" where they differ. Nothing
    while one of them runs: it may be told another."""

    word: ClassVar[str] = "error"
    unit: ClassVar[str] = ""
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        if any(self.calls in ("", name) for name in seen.running):
            return None
        return the_one(call.error or "none" for call in calls_of(seen, self.calls))


@dataclass(frozen=True, slots=True)
class Delivered:
    """Tokens that reached the clients of these calls, all together; with ``what`` prompt tokens, or those of them that
    came out of a prefix cache."""

    word: ClassVar[str] = "tokens"
    unit: ClassVar[str] = "tokens"
    calls: str = ""
    what: Literal["output", "prompt", "cached"] = "output"

    def read(self, seen: Observation) -> Value | None:
        return summed(getattr(call, f"{self.what}_tokens") for call in calls_of(seen, self.calls))


@dataclass(frozen=True, slots=True)
class HitRate:
    """Which fraction of these calls' prompt tokens came out of a prefix cache, as the answers' ``usage`` says. Calls
    without one do not count."""

    word: ClassVar[str] = "hit_rate"
    unit: ClassVar[str] = "%"
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        told = [call for call in calls_of(seen, self.calls) if call.prompt_tokens]
        return sum(call.cached_tokens for call in told) / sum(call.prompt_tokens for call in told) if told else None


@dataclass(frozen=True, slots=True)
class Moved:
    """How many of these calls went on at another worker, because the one that had them failed."""

    word: ClassVar[str] = "moved"
    unit: ClassVar[str] = "calls"
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        return summed(int(call.retries > 0) for call in calls_of(seen, self.calls))


@dataclass(frozen=True, slots=True)
class Share:
    """Which fraction of these calls the worker had."""

    word: ClassVar[str] = "share"
    unit: ClassVar[str] = "%"
    worker: str
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        placed = [call.worker_id for call in calls_of(seen, self.calls) if call.worker_id]
        return placed.count(self.worker) / len(placed) if placed else None


@dataclass(frozen=True, slots=True)
class Skew:
    """How uneven these calls went: the slowest call's mean gap between tokens against the median call's."""

    word: ClassVar[str] = "skew"
    unit: ClassVar[str] = "×"
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        means = [math.fsum(call.gaps_s) / len(call.gaps_s) for call in calls_of(seen, self.calls) if call.gaps_s]
        typical = statistic(means, "p50")
        return max(means) / typical if typical else None
