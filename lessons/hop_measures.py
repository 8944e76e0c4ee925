"""Measures of the way of tokens to their client, and of what calls are on the wire. Pure; see ``measures``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from lessons.call_measures import calls_of
from lessons.hops import Place, between
from lessons.observation import Observation, Value
from lessons.statistic import Stat, statistic

Form = Literal["json", "protobuf"]


@dataclass(frozen=True, slots=True)
class HopTime:
    """How long tokens of these calls took from one place to another. ``engine`` is the end of a token's step,
    ``client`` when it was read; in between, when it left that process. The calls have ``hops``."""

    word: ClassVar[str] = "hop_time"
    unit: ClassVar[str] = "s"
    begin: Place = "engine"
    end: Place = "client"
    calls: str = ""
    stat: Stat = "p50"

    def read(self, seen: Observation) -> Value | None:
        took = [time for call in calls_of(seen, self.calls) for time in between(call.hops, self.begin, self.end)]
        return statistic(took, self.stat)


@dataclass(frozen=True, slots=True)
class MessageSize:
    """How long the request of these calls is on its way to a worker, in this form; see the action ``encode``."""

    word: ClassVar[str] = "message_size"
    unit: ClassVar[str] = "bytes"
    form: Form
    calls: str

    def read(self, seen: Observation) -> Value | None:
        both = seen.encoded.get(self.calls)
        return None if both is None else float((both.json if self.form == "json" else both.protobuf).size)


@dataclass(frozen=True, slots=True)
class MessageTime:
    """What it takes to write that request in this form, to read it, or both."""

    word: ClassVar[str] = "message_time"
    unit: ClassVar[str] = "s"
    form: Form
    calls: str
    does: Literal["both", "write", "read"] = "both"

    def read(self, seen: Observation) -> Value | None:
        both = seen.encoded.get(self.calls)
        if both is None:
            return None
        encoded = both.json if self.form == "json" else both.protobuf
        return encoded.write_s * (self.does != "read") + encoded.read_s * (self.does != "write")
