"""What operators see of conversations, as plain values.

Field names equal those of ``v1/history.proto``, which documents each of them; ``wire`` converts both ways.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConversationView:
    id: str
    tenant: str
    created_unix: float
    updated_unix: float
    items: int
    characters: int


@dataclass(frozen=True, slots=True)
class ItemView:
    id: str
    seq: int
    role: str
    status: str
    turn_id: str = ""
    turn_status: str = ""
    characters: int = 0
    created_unix: float = 0.0
    text: str = ""


@dataclass(frozen=True, slots=True)
class ConversationDetail:
    conversation: ConversationView | None = None
    items: tuple[ItemView, ...] = ()
    taken_unix: float = 0.0


@dataclass(frozen=True, slots=True)
class ConversationList:
    conversations: tuple[ConversationView, ...] = ()
    taken_unix: float = 0.0
