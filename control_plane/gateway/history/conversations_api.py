"""``/v1/conversations`` in the shape of OpenAI's, and a list of the caller's own, which OpenAI has not."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from control_plane.contracts.conversation import Conversation, Item
from control_plane.gateway.answer.item_json import item_json, list_json
from control_plane.gateway.history.store_door import StoreDoor
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.http.target import query_of, segments_of
from control_plane.gateway.schema.conversations import ADDED, CHANGED, NEW
from control_plane.gateway.schema.page_query import INCLUDE, read_page_query
from control_plane.gateway.schema.thread import new_id


class ConversationsApi:
    """A handler for each URL; the method says what is done there."""

    def __init__(self, door: StoreDoor) -> None:
        self._door = door

    def all(self, exchange: Exchange) -> None:
        tenant, store = exchange.grant.tenant, self._door.history.conversations
        most = exchange.grant.conversations
        if exchange.method == b"POST":

            def make(values: dict[str, Any]) -> None:
                items, metadata = _stamped(values.get("items", [])), values.get("metadata", {})
                conversation_id = new_id("conv")

                def create() -> Any:
                    store.create(conversation_id, tenant, metadata, items, most)
                    return _shown(store.get(tenant, conversation_id))

                self._door.answer(exchange, create)

            self._door.read(exchange, NEW, make)
        else:
            page = read_page_query(query_of(exchange.target))

            def find() -> Any:
                found = store.of_tenant(tenant, page.order, page.after, page.limit)
                return list_json([_shown(row) for row in found.rows], more=found.more)

            self._door.answer(exchange, find)

    def one(self, exchange: Exchange) -> None:
        tenant, store = exchange.grant.tenant, self._door.history.conversations
        name = segments_of(exchange.target)[2]
        if exchange.method == b"POST":

            def change(values: dict[str, Any]) -> None:
                self._door.answer(exchange, lambda: _shown(store.update(tenant, name, values["metadata"])))

            self._door.read(exchange, CHANGED, change)
        elif exchange.method == b"DELETE":

            def delete() -> Any:
                store.delete(tenant, name)
                return {"id": name, "object": "conversation.deleted", "deleted": True}

            self._door.answer(exchange, delete)
        else:
            self._door.answer(exchange, lambda: _shown(store.get(tenant, name)))

    def items(self, exchange: Exchange) -> None:
        tenant, store = exchange.grant.tenant, self._door.history.conversations
        name = segments_of(exchange.target)[2]
        if exchange.method == b"POST":
            INCLUDE.read(query_of(exchange.target))

            def take(values: dict[str, Any]) -> None:
                items = _stamped(values["items"])

                def add() -> Any:
                    return list_json([item_json(item) for item in store.add(tenant, name, items)], more=False)

                self._door.answer(exchange, add)

            self._door.read(exchange, ADDED, take)
        else:
            page = read_page_query(query_of(exchange.target))

            def find() -> Any:
                found = store.items(tenant, name, page.order, page.after, page.limit)
                return list_json([item_json(item) for item in found.rows], more=found.more)

            self._door.answer(exchange, find)

    def item(self, exchange: Exchange) -> None:
        tenant, store = exchange.grant.tenant, self._door.history.conversations
        _, _, name, _, item_id = segments_of(exchange.target)
        if exchange.method == b"DELETE":
            self._door.answer(exchange, lambda: _shown(store.delete_item(tenant, name, item_id)))
        else:
            INCLUDE.read(query_of(exchange.target))
            self._door.answer(exchange, lambda: item_json(store.item(tenant, name, item_id)))


def _stamped(items: list[Item]) -> list[Item]:
    now = time.time()
    return [dataclasses.replace(item, created_unix=now) for item in items]


def _shown(conversation: Conversation) -> dict[str, Any]:
    return {
        "id": conversation.id,
        "object": "conversation",
        "created_at": int(conversation.created_unix),
        "metadata": dict(conversation.metadata),
    }
