"""Kept items and lists of them as OpenAI's clients read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from control_plane.contracts.conversation import Item


def item_json(item: Item) -> dict[str, Any]:
    """``turn``, which OpenAI has not, says which call the item is of, and how that ended."""
    shown: dict[str, Any] = {
        "id": item.id,
        "type": "message",
        "role": item.role,
        "status": item.status,
        "content": [text_part(item.text) if item.role == "assistant" else {"type": "input_text", "text": item.text}],
    }
    if item.turn_id:
        shown["turn"] = {"id": item.turn_id, "status": item.turn_status or "deleted"}
    return shown


def text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def list_json(entries: Sequence[dict[str, Any]], *, more: bool) -> dict[str, Any]:
    return {
        "object": "list",
        "data": list(entries),
        "first_id": entries[0]["id"] if entries else None,
        "last_id": entries[-1]["id"] if entries else None,
        "has_more": more,
    }


def to_bytes(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
