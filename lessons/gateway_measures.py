"""Measures of what the gateway told its callers. Pure; see ``measures``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from lessons.call_measures import calls_of, the_one
from lessons.observation import Observation, Value
from lessons.statistic import Stat, statistic, summed


def _headers(seen: Observation, calls: str, name: str) -> Iterator[float]:
    return (float(call.headers[name]) for call in calls_of(seen, calls) if call.headers.get(name, "").isdecimal())


@dataclass(frozen=True, slots=True)
class Status:
    """The HTTP status of all of these calls; "several" where they differ."""

    word: ClassVar[str] = "status"
    unit: ClassVar[str] = ""
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        return the_one(float(call.status) for call in calls_of(seen, self.calls) if call.status)


@dataclass(frozen=True, slots=True)
class TokensLeft:
    """``x-ratelimit-remaining-tokens``: what the key had left of its minute when a call was let in, and had reserved
    its own."""

    word: ClassVar[str] = "tokens_left"
    unit: ClassVar[str] = "tokens"
    calls: str = ""
    stat: Stat = "min"

    def read(self, seen: Observation) -> Value | None:
        return statistic(list(_headers(seen, self.calls, "x-ratelimit-remaining-tokens")), self.stat)


@dataclass(frozen=True, slots=True)
class RequestsLeft:
    """``x-ratelimit-remaining-requests``, likewise."""

    word: ClassVar[str] = "requests_left"
    unit: ClassVar[str] = "requests"
    calls: str = ""
    stat: Stat = "min"

    def read(self, seen: Observation) -> Value | None:
        return statistic(list(_headers(seen, self.calls, "x-ratelimit-remaining-requests")), self.stat)


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """``Retry-After`` of those of these calls that were refused with one."""

    word: ClassVar[str] = "retry_after"
    unit: ClassVar[str] = "s"
    calls: str = ""
    stat: Stat = "max"

    def read(self, seen: Observation) -> Value | None:
        return statistic(list(_headers(seen, self.calls, "retry-after")), self.stat)


@dataclass(frozen=True, slots=True)
class Reached:
    """How many of these calls a worker had."""

    word: ClassVar[str] = "reached"
    unit: ClassVar[str] = "calls"
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        return summed(int(bool(call.worker_id)) for call in calls_of(seen, self.calls))
