"""Measures of what happened, as the platform's events tell it. Pure; see ``measures``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lessons.observation import Observation, Value


@dataclass(frozen=True, slots=True)
class Events:
    """How many events of a kind came."""

    word: ClassVar[str] = "events"
    unit: ClassVar[str] = "times"
    kind: str

    def read(self, seen: Observation) -> Value | None:
        return float(sum(event.kind == self.kind for event in seen.events))


@dataclass(frozen=True, slots=True)
class Apart:
    """How long after the first event of one kind the next one of another kind came, about the same subject."""

    word: ClassVar[str] = "apart"
    unit: ClassVar[str] = "s"
    first: str
    then: str

    def read(self, seen: Observation) -> Value | None:
        ordered = sorted(seen.events, key=lambda event: event.seq)
        began = next((event for event in ordered if event.kind == self.first), None)
        if began is None:
            return None
        later = (event for event in ordered if event.seq > began.seq and event.subject == began.subject)
        return next((event.at_unix - began.at_unix for event in later if event.kind == self.then), None)
