"""The tables of conversations: themselves, the turns that ran in them or alone, and the items of both."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Float, ForeignKey, Index, Integer, String, Table, Text, UniqueConstraint

from control_plane.store.any_text import AnyText
from control_plane.store.tables import metadata

# items, characters and last_seq are of its items; whoever adds some changes this row first, and so comes in turn.
conversations: Final = Table(
    "conversations",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("tenant", String(200), nullable=False),
    Column("created_unix", Float, nullable=False),
    Column("updated_unix", Float, nullable=False),
    Column("metadata_json", Text, nullable=False),
    Column("items", Integer, nullable=False),
    Column("characters", Integer, nullable=False),
    Column("last_seq", Integer, nullable=False),
    Index("conversations_by_tenant", "tenant", "created_unix", "id"),
)

turns: Final = Table(
    "turns",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("tenant", String(200), nullable=False),
    Column("conversation_id", String(64), ForeignKey("conversations.id", ondelete="CASCADE")),
    Column("previous_id", String(64), nullable=False),
    Column("api", String(32), nullable=False),
    Column("model", String(256), nullable=False),
    Column("owner", String(128), nullable=False),
    Column("answer_id", String(64), nullable=False),
    Column("settings_json", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("reason", String(64), nullable=False),
    Column("created_unix", Float, nullable=False),
    Column("ended_unix", Float, nullable=False),
    Column("prompt_tokens", Integer, nullable=False),
    Column("cached_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    Index("turns_by_conversation", "conversation_id"),
    Index("turns_by_status", "status", "owner"),
)

# An item of a turn without a conversation belongs to the turn alone; turn_id is "" where it was put in by hand.
conversation_items: Final = Table(
    "conversation_items",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("conversation_id", String(64), ForeignKey("conversations.id", ondelete="CASCADE")),
    Column("turn_id", String(64), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("role", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("text", AnyText, nullable=False),
    Column("created_unix", Float, nullable=False),
    UniqueConstraint("conversation_id", "seq", name="items_in_order"),
    Index("items_by_turn", "turn_id", "seq"),
)
