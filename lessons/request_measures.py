"""Measures of one request's life: its stages, its stream, its end. Pure; see ``measures``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from lessons.call_measures import calls_of, the_one
from lessons.observation import Observation, Value
from lessons.statistic import Stat, statistic, summed

StageName = Literal["auth", "tokenise", "queue", "route", "worker_queue", "prefill", "decode"]


@dataclass(frozen=True, slots=True)
class StageTime:
    """How long a stage of these calls took, by the platform's own clocks."""

    word: ClassVar[str] = "stage_time"
    unit: ClassVar[str] = "s"
    stage: StageName
    calls: str = ""
    stat: Stat = "p50"

    def read(self, seen: Observation) -> Value | None:
        times = [call.stages_s.get(self.stage) for call in calls_of(seen, self.calls)]
        return statistic([time for time in times if time is not None], self.stat)


@dataclass(frozen=True, slots=True)
class LongestStage:
    """The stage that took the most of the time of these calls together."""

    word: ClassVar[str] = "longest_stage"
    unit: ClassVar[str] = ""
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        sums: dict[str, float] = {}
        for call in calls_of(seen, self.calls):
            for stage, seconds in call.stages_s.items():
                sums[stage] = sums.get(stage, 0.0) + seconds
        return max(sums, key=lambda stage: sums[stage]) if sums else None


@dataclass(frozen=True, slots=True)
class StreamEvents:
    """The events of the streams of these calls, all together, with the last ones, ``[DONE]``."""

    word: ClassVar[str] = "stream_events"
    unit: ClassVar[str] = "events"
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        return summed(call.events for call in calls_of(seen, self.calls))


@dataclass(frozen=True, slots=True)
class FinishReason:
    """``finish_reason`` of all of these calls; "several" where they differ."""

    word: ClassVar[str] = "finish"
    unit: ClassVar[str] = ""
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        return the_one(call.finish for call in calls_of(seen, self.calls) if call.finish)


@dataclass(frozen=True, slots=True)
class Requests:
    """How many requests the platform had, whoever made them: through this API, streamed, and ended for this reason
    ("stop", "length", …), as far as these are given."""

    word: ClassVar[str] = "requests"
    unit: ClassVar[str] = "requests"
    api: Literal["", "chat", "completions", "responses"] = ""
    streamed: bool = False
    reason: str = ""
    at_least_prompt: int = 0

    def read(self, seen: Observation) -> Value | None:
        return float(
            sum(
                request.api == (self.api or request.api)
                and request.stream >= self.streamed
                and request.reason == (self.reason or request.reason)
                and request.prompt_tokens >= self.at_least_prompt
                for request in seen.requests
            )
        )
