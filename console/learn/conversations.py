"""The conversations that a lesson's calls are in: made where they are first named, put back where an experiment runs
again, and read back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from console.completion import Body
from console.http import Endpoint
from console.learn.errand import errand
from console.learn.keyring import Keyring
from control_plane.contracts.errors import NotFound
from lessons.actions import Shape
from lessons.conversation import ItemSeen

PATH: Final = "/conversations"
PAGE: Final = 100
"""The most items that the gateway gives at once."""


MOST_COPIED: Final = 20
"""The most items that the gateway takes with a new one."""


class Conversations:
    """Lessons know them by names, the platform by ids. ``keys`` has the key of who makes one, which also reads it."""

    def __init__(self, keys: Keyring) -> None:
        self._keys = keys
        self._made: dict[str, tuple[str, str]] = {}
        self._called: dict[tuple[str, str], int] = {}
        self._making = asyncio.Lock()

    def __contains__(self, name: str) -> bool:
        return name in self._made

    def id_of(self, name: str) -> str:
        return self._made[name][0]

    async def make(self, endpoint: Endpoint, shapes: Iterable[Shape], era: int = 0) -> None:
        """Those that these calls are in, as far as there are none yet. What was asked in an earlier ``era`` is asked
        again where it was asked then: in another conversation, with what was said before it. Raises Unreachable or
        InferDeckError."""
        async with self._making:
            for shape in shapes:
                name = shape.conversation
                if not name:
                    continue
                if name not in self._made:
                    await self._begin(endpoint, name, self._keys.secret(shape), {})
                elif self._called.get((name, shape.name), era) != era:
                    items = await self.read(endpoint, name)
                    asked = [item.role == "user" and item.text == shape.text for item in items]
                    if any(asked):
                        await self._begin(endpoint, name, self._made[name][1], _copied(items[: asked.index(True)]))
                self._called[name, shape.name] = era

    async def _begin(self, endpoint: Endpoint, name: str, key: str, body: Body) -> None:
        self._made[name] = ((await errand(endpoint, PATH, key, body))["id"], key)

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


def _copied(items: Sequence[ItemSeen]) -> Body:
    said = [{"type": "message", "role": item.role, "content": item.text} for item in items[-MOST_COPIED:]]
    return {"items": said} if said else {}


def _item(told: dict[str, Any]) -> ItemSeen:
    turn = told.get("turn", {})
    text = "".join(part["text"] for part in told["content"])
    return ItemSeen(told["role"], text, told["status"], turn.get("id", ""), turn.get("status", ""))
