"""Conversations as rows: their columns and data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from console import figures
from console.plain.data import plain
from console.plain.table import Column
from control_plane.contracts.history_view import ConversationDetail, ConversationView, ItemView


def conversation_columns(now: float) -> Sequence[Column[ConversationView]]:
    return (
        Column("ID", lambda c: c.id, keep=9),
        Column("TENANT", lambda c: c.tenant, keep=8),
        Column("ITEMS", lambda c: f"{c.items:,}", right=True, keep=7),
        Column("CHARACTERS", lambda c: f"{c.characters:,}", right=True, keep=6),
        Column("CHANGED", lambda c: f"{figures.age(max(0.0, now - c.updated_unix))} ago", right=True, keep=5),
        Column("AGE", lambda c: figures.age(max(0.0, now - c.created_unix)), right=True, keep=4),
    )


def item_columns(now: float) -> Sequence[Column[ItemView]]:
    return (
        Column("SEQ", lambda i: str(i.seq), right=True, keep=9),
        Column("ROLE", lambda i: i.role, keep=8),
        Column("STATUS", lambda i: i.status, keep=7, style=_status_style),
        Column("CHARACTERS", lambda i: f"{i.characters:,}", right=True, keep=6),
        Column("TURN", lambda i: i.turn_status or figures.NONE, keep=5),
        Column("AGE", lambda i: figures.age(max(0.0, now - i.created_unix)), right=True, keep=4),
        Column("ID", lambda i: i.id, keep=3),
    )


def _status_style(item: ItemView) -> str | None:
    return {"completed": "good", "in_progress": "watch"}.get(item.status, "bad")


def conversation_data(row: ConversationView) -> dict[str, Any]:
    values: dict[str, Any] = plain(row)
    return values


def detail_data(detail: ConversationDetail, *, content: bool) -> dict[str, Any]:
    """The conversation with its items; what was said is left out where it was not asked for."""
    items = []
    for item in detail.items:
        values: dict[str, Any] = plain(item)
        if not content:
            del values["text"]
        items.append(values)
    return {**(plain(detail.conversation) if detail.conversation is not None else {}), "items": items}
