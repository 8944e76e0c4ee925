"""Measures of what a conversation has of the calls that were made in it. Pure; see ``measures``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from control_plane.contracts.conversation import TurnStatus
from lessons.call_measures import the_one
from lessons.conversation import TurnSeen, turns_for, turns_of
from lessons.observation import CallSeen, Observation, Value
from lessons.statistic import summed


def _turns(seen: Observation, name: str) -> Iterator[tuple[CallSeen, TurnSeen | None]]:
    """The calls of this name (all without one) that are in a conversation, each with its turn there."""
    for conversation, items in seen.conversations.items():
        calls = [call for call in seen.calls if call.conversation == conversation]
        turns = turns_for([call.asked for call in calls], turns_of(items))
        yield from ((call, turn) for call, turn in zip(calls, turns, strict=True) if not name or call.name == name)


@dataclass(frozen=True, slots=True)
class Kept:
    """How many of these calls' turns their conversation has so: "whole" (completed), "cut" (ended in any other way);
    either only with exactly the text that their client received. Else a turn is "lost"."""

    word: ClassVar[str] = "kept"
    unit: ClassVar[str] = "turns"
    calls: str = ""
    how: Literal["whole", "cut", "lost"] = "whole"

    def read(self, seen: Observation) -> Value | None:
        return summed(int(_how(call, turn) == self.how) for call, turn in _turns(seen, self.calls))


def _how(call: CallSeen, turn: TurnSeen | None) -> str:
    if turn is None or turn.answer != call.heard:
        return "lost"
    return "whole" if turn.status == TurnStatus.COMPLETED else "cut"


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """How the turns of all of these calls ended, as their conversation says: "completed", "incomplete", "cancelled",
    "failed"; "no turn" where it has none, "several" where they differ."""

    word: ClassVar[str] = "turn"
    unit: ClassVar[str] = ""
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        return the_one("no turn" if turn is None else turn.status for _, turn in _turns(seen, self.calls))


@dataclass(frozen=True, slots=True)
class KeptText:
    """The answers of all of these calls in their conversation, against what their clients received: "the same", "less",
    "more", "other", "nothing"; "no turn" where it has none, "several" where they differ."""

    word: ClassVar[str] = "kept_text"
    unit: ClassVar[str] = ""
    calls: str = ""

    def read(self, seen: Observation) -> Value | None:
        return the_one(_text(call.heard, turn) for call, turn in _turns(seen, self.calls))


def _text(heard: str, turn: TurnSeen | None) -> str:
    if turn is None:
        return "no turn"
    kept = turn.answer
    if kept == heard:
        return "the same"
    if not kept:
        return "nothing"
    return "less" if heard.startswith(kept) else "more" if kept.startswith(heard) else "other"
