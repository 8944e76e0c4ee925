"""What is kept of conversations: their items, and the turns that made them.

A *turn* is one call whose messages and answer are kept: a call with a conversation, or a stored response. Its items are
the messages that came with it and, after them, one answer. Times are wall clock seconds, characters are code points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

MAX_ITEMS: Final = 4096
"""Of one conversation, as a chat call may have messages."""

MAX_CHARACTERS: Final = 4 * 1024 * 1024
"""Of one conversation's items together, before its last turn."""


class TurnStatus(StrEnum):
    """``incomplete``: its tokens were used up. ``cancelled``: the client left, or an operator ended it. ``failed``: a
    worker or a gateway ended before it."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def of_item(self) -> str:
        """The status of its answer, which has fewer."""
        return str(self) if self in (TurnStatus.IN_PROGRESS, TurnStatus.COMPLETED) else str(TurnStatus.INCOMPLETE)


@dataclass(frozen=True, slots=True)
class Item:
    """One message. ``seq`` rises within its conversation, or within its turn where there is no conversation."""

    id: str
    role: str
    text: str
    seq: int = 0
    status: str = "completed"
    created_unix: float = 0.0
    turn_id: str = ""
    turn_status: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    id: str
    tenant: str
    created_unix: float
    updated_unix: float
    metadata: Mapping[str, str]
    items: int
    characters: int


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended. ``text`` is exactly what was delivered; ``reason`` is a DropReason, or empty. ``model``: the
    one that answered, where it is not the one that the turn began with."""

    status: TurnStatus
    text: str
    reason: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    model: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """``owner`` is the gateway process that runs it, ``answer_id`` the item that its answer becomes. ``settings`` are
    what a response tells of its request. ``messages`` are the items that came with it, ``answer`` is None until it is
    read from the store."""

    id: str
    tenant: str
    api: str
    model: str
    owner: str
    answer_id: str
    created_unix: float
    messages: Sequence[Item]
    conversation_id: str = ""
    previous_id: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    status: TurnStatus = TurnStatus.IN_PROGRESS
    ended_unix: float = 0.0
    reason: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    answer: Item | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list in its order."""

    rows: Sequence[Any]
    more: bool
