"""Stored responses: read, deleted, and what came with them."""

from __future__ import annotations

from typing import Any

from control_plane.contracts.conversation import Turn
from control_plane.contracts.errors import InvalidRequest, NotFound
from control_plane.gateway.answer.item_json import item_json, list_json
from control_plane.gateway.answer.response_json import stored_response
from control_plane.gateway.history.store_door import StoreDoor
from control_plane.gateway.http.exchange import Exchange
from control_plane.gateway.http.target import query_of, segments_of
from control_plane.gateway.schema.page_query import RESPONSE_QUERY, read_page_query
from control_plane.store import Turns


class ResponsesApi:
    """A handler for each URL below ``/v1/responses/``."""

    def __init__(self, door: StoreDoor) -> None:
        self._door = door

    def one(self, exchange: Exchange) -> None:
        tenant, store = exchange.grant.tenant, self._door.history.turns
        name = segments_of(exchange.target)[2]
        if exchange.method == b"DELETE":

            def delete() -> Any:
                _find(store, tenant, name)
                store.delete(tenant, name)
                return {"id": name, "object": "response", "deleted": True}

            self._door.answer(exchange, delete)
        else:
            RESPONSE_QUERY.read(query_of(exchange.target))
            self._door.answer(exchange, lambda: stored_response(_find(store, tenant, name)))

    def cancel(self, exchange: Exchange) -> None:
        tenant, store = exchange.grant.tenant, self._door.history.turns
        name = segments_of(exchange.target)[2]

        def refuse() -> Any:
            _find(store, tenant, name)
            raise InvalidRequest(
                "Only responses made with 'background' can be cancelled so, and this server has none: "
                "close the connection of the call instead."
            )

        self._door.answer(exchange, refuse)

    def input_items(self, exchange: Exchange) -> None:
        tenant, store = exchange.grant.tenant, self._door.history.turns
        name = segments_of(exchange.target)[2]
        page = read_page_query(query_of(exchange.target))

        def find() -> Any:
            turn = _find(store, tenant, name)
            items = list(turn.messages) if page.order == "asc" else list(reversed(turn.messages))
            if page.after:
                ids = [item.id for item in items]
                if page.after not in ids:
                    raise NotFound(f"Item with id '{page.after}' not found.", param="after")
                items = items[ids.index(page.after) + 1 :]
            return list_json([item_json(item) for item in items[: page.limit]], more=len(items) > page.limit)

        self._door.answer(exchange, find)


def _find(store: Turns, tenant: str, name: str) -> Turn:
    """Raises NotFound, also for a call that was no response or was not to be stored as one."""
    turn = store.get(tenant, name)
    if turn.api != "responses" or not turn.settings.get("store", True):
        raise NotFound(f"Response with id '{name[:64]}' not found.")
    return turn
