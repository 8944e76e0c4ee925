"""The conversations that a lesson's calls are in: made where they are first named, and read back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from console.http import Endpoint
from console.learn.errand import errand
from console.learn.keyring import Keyring
from control_plane.contracts.errors import NotFound
from lessons.actions import Shape
from lessons.conversation import ItemSeen

PATH: Final = "/conversations"
PAGE: Final = 100
"""The most items that the gateway gives at once."""


class Conversations:
    """Lessons know them by names, the platform by ids. ``keys`` has the key of who makes one, which also reads it."""

    def __init__(self, keys: Keyring) -> None:
        self._keys = keys
        self._made: dict[str, tuple[str, str]] = {}
        self._making = asyncio.Lock()

    def __contains__(self, name: str) -> bool:
        return name in self._made

    def id_of(self, name: str) -> str:
        return self._made[name][0]

    async def make(self, endpoint: Endpoint, shapes: Iterable[Shape]) -> None:
        """Those that these calls are in, as far as there are none yet. Raises Unreachable or InferDeckError."""
        async with self._making:
            for shape in shapes:
                if shape.conversation and shape.conversation not in self._made:
                    key = self._keys.secret(shape)
                    made = await errand(endpoint, PATH, key, {})
                    self._made[shape.conversation] = (made["id"], key)

    async def read(self, endpoint: Endpoint, name: str) -> tuple[ItemSeen, ...]:
        """All that it holds, the oldest first. Raises NotFound, Unreachable or InferDeckError."""
        if name not in self._made:
            raise NotFound(f"no call made a conversation {name!r}")
        conversation_id, key = self._made[name]
        found: list[ItemSeen] = []
        query = f"{PATH}/{conversation_id}/items?order=asc&limit={PAGE}"
        after = ""
        while True:
            page = await errand(endpoint, query + after, key)
            found += map(_item, page["data"])
            if not page["has_more"]:
                return tuple(found)
            after = f"&after={page['last_id']}"


def _item(told: dict[str, Any]) -> ItemSeen:
    turn = told.get("turn", {})
    text = "".join(part["text"] for part in told["content"])
    return ItemSeen(told["role"], text, told["status"], turn.get("id", ""), turn.get("status", ""))
