"""A conversation as it is read back, beside what its callers heard: lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from console import figures
from console.learn.calls import Made
from console.plain.table import Column, table
from console.text import fit, width
from control_plane.contracts.conversation import TurnStatus
from lessons.conversation import ItemSeen, turns_for, turns_of

TEXT: Final = 36
"""Cells of what was said."""


@dataclass(frozen=True, slots=True)
class _Row:
    item: ItemSeen
    heard: str


def conversation_lines(
    conversation_id: str, items: Sequence[ItemSeen], calls: Sequence[Made], room: int
) -> Iterator[str]:
    """``calls`` are those that were made in it, in their order."""
    yield fit(f"> GET /v1/conversations/{conversation_id}/items", room)
    yield ""
    turns = turns_for([made.shape.text for made in calls], turns_of(items))
    heard = {turn.id: made.heard for made, turn in zip(calls, turns, strict=True) if turn is not None}
    rows = [_Row(item, _heard(item, heard)) for item in items]
    yield from table(rows, _COLUMNS, room).lines


def _heard(item: ItemSeen, heard: dict[str, str]) -> str:
    if item.role != "assistant" or item.turn_id not in heard:
        return figures.NONE
    return f"{len(heard[item.turn_id]):,}"


def _ends(text: str) -> str:
    """How it begins, and how it ends, by whole words where there are any."""
    if width(text) <= TEXT:
        return text
    half = (TEXT - 3) // 2
    begin, end = fit(text, half + 1).removesuffix("…"), text[len(text) - half :]
    return f"{begin.rpartition(' ')[0] or begin} … {end.partition(' ')[2] or end}"


def _style(row: _Row) -> str | None:
    status = row.item.turn_status
    return {"": None, TurnStatus.COMPLETED: "good", TurnStatus.IN_PROGRESS: "watch"}.get(status, "bad")


_COLUMNS: Final[Sequence[Column[_Row]]] = (
    Column("ROLE", lambda row: row.item.role, keep=9),
    Column("TURN", lambda row: row.item.turn_status or figures.NONE, keep=8, style=_style),
    Column("KEPT", lambda row: f"{len(row.item.text):,}", right=True, keep=7),
    Column("HEARD", lambda row: row.heard, right=True, keep=7),
    Column("TEXT", lambda row: _ends(row.item.text), keep=6),
)
