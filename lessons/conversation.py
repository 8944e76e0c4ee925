"""A conversation as it is read back: its items, and the turns that they make. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ItemSeen:
    """One message, as the API tells it. ``turn_id`` is the call that brought it, empty where none did, and
    ``turn_status`` how that call ended."""

    role: str
    text: str
    status: str
    turn_id: str = ""
    turn_status: str = ""


@dataclass(frozen=True, slots=True)
class TurnSeen:
    """A question and its answer as they are kept, and how the call ended: "completed", "incomplete", "cancelled",
    "failed"; "in_progress" while it runs."""

    id: str
    asked: str
    answer: str
    status: str


def turns_of(items: Iterable[ItemSeen]) -> list[TurnSeen]:
    """In their order. Of several messages in one call the last one is the question."""
    asked: dict[str, str] = {}
    answers: dict[str, ItemSeen] = {}
    for item in items:
        if not item.turn_id:
            continue
        if item.role == "assistant":
            answers[item.turn_id] = item
        else:
            asked[item.turn_id] = item.text
    return [
        TurnSeen(turn_id, text, answers[turn_id].text, answers[turn_id].turn_status)
        for turn_id, text in asked.items()
        if turn_id in answers
    ]


def turns_for(asked: Sequence[str], turns: Sequence[TurnSeen]) -> list[TurnSeen | None]:
    """The turn of each question, None where none is kept. Both are in the order of time. Of questions that are alike
    the last one has the last turn, since of what was asked before only a part may be known here."""
    free = list(turns)
    found: list[TurnSeen | None] = []
    for text in reversed(asked):
        turn = next((turn for turn in reversed(free) if turn.asked == text), None)
        if turn is not None:
            free.remove(turn)
        found.append(turn)
    return found[::-1]
