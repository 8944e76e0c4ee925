"""The bodies of ``/v1/conversations``."""

from __future__ import annotations

from typing import Any

from control_plane.contracts.conversation import Item
from control_plane.gateway.schema.items import ITEM, read_items
from control_plane.gateway.schema.metadata import metadata
from control_plane.gateway.schema.table import Table
from control_plane.gateway.schema.values import Field

MAX_ADDED = 20
"""Items in one request."""


def _items(name: str, value: Any) -> list[Item]:
    return read_items(name, value, MAX_ADDED)


def _some_items(name: str, value: Any) -> list[Item]:
    return [] if value == [] else _items(name, value)


_ARRAY = {"type": "array", "items": ITEM, "maxItems": MAX_ADDED}

NEW = Table({"items": Field(_some_items, _ARRAY), "metadata": metadata})
CHANGED = Table({"metadata": metadata}, ("metadata",))
ADDED = Table({"items": Field(_items, _ARRAY | {"minItems": 1})}, ("items",))
