"""Conversations and their items. What another tenant has is not found.

Every method is one short transaction and may wait for the database: call it from a thread. Who adds or takes items
changes the conversation's row first: on PostgreSQL that locks the row, on SQLite the file, so that numbers are given
in turn.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import sqlalchemy as sa

from control_plane.contracts.conversation import MAX_CHARACTERS, MAX_ITEMS, Conversation, Item, Page
from control_plane.contracts.errors import InvalidRequest, NotFound
from control_plane.contracts.keeping import MOST_CONVERSATIONS
from control_plane.store.conversation_tables import conversation_items, conversations, turns
from control_plane.store.database import Database
from control_plane.store.tenant_counts import count_one_less, count_one_more

Order = Literal["asc", "desc"]

_of = conversations.c
_items = conversation_items.c


class Conversations:
    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        conversation_id: str,
        tenant: str,
        metadata: Mapping[str, str],
        items: Sequence[Item],
        most: int = MOST_CONVERSATIONS,
    ) -> None:
        """``most``: how many the tenant may have. Raises InvalidRequest for one too many, or too many items."""
        now = time.time()
        with self._database.transaction() as connection:
            count_one_more(connection, tenant, most)
            connection.execute(
                conversations.insert().values(
                    id=conversation_id,
                    tenant=tenant,
                    created_unix=now,
                    updated_unix=now,
                    metadata_json=json.dumps(dict(metadata)),
                    items=0,
                    characters=0,
                    last_seq=0,
                )
            )
            if items:
                add_items(connection, tenant, conversation_id, items)

    def get(self, tenant: str, conversation_id: str) -> Conversation:
        with self._database.transaction() as connection:
            return _find(connection, tenant, conversation_id)

    def update(self, tenant: str, conversation_id: str, metadata: Mapping[str, str]) -> Conversation:
        """Replace the metadata."""
        with self._database.transaction() as connection:
            connection.execute(
                conversations.update()
                .where(_of.id == conversation_id, _of.tenant == tenant)
                .values(metadata_json=json.dumps(dict(metadata)), updated_unix=time.time())
            )
            return _find(connection, tenant, conversation_id)

    def delete(self, tenant: str, conversation_id: str) -> None:
        """With everything in it: items, and the turns that ran in it."""
        with self._database.transaction() as connection:
            gone = connection.execute(
                conversations.delete().where(_of.id == conversation_id, _of.tenant == tenant)
            ).rowcount
            if gone:
                count_one_less(connection, tenant)
        if not gone:
            raise not_found(conversation_id)

    def of_tenant(self, tenant: str, order: Order, after: str, limit: int) -> Page:
        """The tenant's conversations in the order they were made."""
        query = sa.select(conversations).where(_of.tenant == tenant)
        key = sa.tuple_(_of.created_unix, _of.id)
        with self._database.transaction() as connection:
            if after:
                last = _find(connection, tenant, after, param="after")
                mark = sa.tuple_(sa.literal(last.created_unix, sa.Float), sa.literal(last.id))
                query = query.where(key > mark if order == "asc" else key < mark)
            columns = (_of.created_unix, _of.id)
            query = query.order_by(*(column.asc() if order == "asc" else column.desc() for column in columns))
            rows = connection.execute(query.limit(limit + 1)).all()
        return Page([_conversation(row) for row in rows[:limit]], len(rows) > limit)

    def everyones(self, limit: int) -> list[Conversation]:
        """Of all tenants, the last changed first."""
        query = sa.select(conversations).order_by(_of.updated_unix.desc(), _of.id).limit(limit)
        with self._database.transaction() as connection:
            return [_conversation(row) for row in connection.execute(query).all()]

    def anyones(self, conversation_id: str) -> Conversation:
        """Whoever's it is. Raises NotFound."""
        with self._database.transaction() as connection:
            row = connection.execute(sa.select(conversations).where(_of.id == conversation_id)).one_or_none()
        if row is None:
            raise not_found(conversation_id)
        return _conversation(row)

    def add(self, tenant: str, conversation_id: str, items: Sequence[Item]) -> list[Item]:
        with self._database.transaction() as connection:
            return add_items(connection, tenant, conversation_id, items)

    def history(self, tenant: str, conversation_id: str) -> list[Item]:
        """All items, oldest first."""
        return list(self.items(tenant, conversation_id, "asc", "", MAX_ITEMS).rows)

    def items(self, tenant: str, conversation_id: str, order: Order, after: str, limit: int) -> Page:
        query = _with_turns().where(_items.conversation_id == conversation_id)
        with self._database.transaction() as connection:
            _find(connection, tenant, conversation_id)
            if after:
                last = _item(connection, conversation_id, after, "after").seq
                query = query.where(_items.seq > last if order == "asc" else _items.seq < last)
            query = query.order_by(_items.seq.asc() if order == "asc" else _items.seq.desc())
            rows = connection.execute(query.limit(limit + 1)).all()
        return Page([item_of(row) for row in rows[:limit]], len(rows) > limit)

    def item(self, tenant: str, conversation_id: str, item_id: str) -> Item:
        with self._database.transaction() as connection:
            _find(connection, tenant, conversation_id)
            return _item(connection, conversation_id, item_id)

    def delete_item(self, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        with self._database.transaction() as connection:
            # The row first: see above.
            _touch(connection, tenant, conversation_id)
            item = _item(connection, conversation_id, item_id)
            connection.execute(conversation_items.delete().where(_items.id == item_id))
            connection.execute(
                conversations.update()
                .where(_of.id == conversation_id)
                .values(items=_of["items"] - 1, characters=_of.characters - len(item.text))
            )
            return _find(connection, tenant, conversation_id)


def add_items(connection: sa.Connection, tenant: str, conversation_id: str, items: Sequence[Item]) -> list[Item]:
    """The items with the numbers they were given. Raises NotFound, InvalidRequest where there would be too many."""
    characters = sum(len(item.text) for item in items)
    row = connection.execute(
        conversations.update()
        .where(_of.id == conversation_id, _of.tenant == tenant)
        .values(
            last_seq=_of.last_seq + len(items),
            items=_of["items"] + len(items),
            characters=_of.characters + characters,
            updated_unix=time.time(),
        )
        .returning(_of.last_seq, _of["items"].label("held"), _of.characters)
    ).one_or_none()
    if row is None:
        raise not_found(conversation_id)
    if row.held > MAX_ITEMS or row.characters > MAX_CHARACTERS:
        raise InvalidRequest(
            f"This conversation would have {row.held} items with {row.characters} characters; "
            f"at most {MAX_ITEMS} and {MAX_CHARACTERS} are kept. Start a new one, or delete items of it.",
            param="conversation",
            code="conversation_too_large",
        )
    first = row.last_seq - len(items) + 1
    values = [
        {
            "id": item.id,
            "conversation_id": conversation_id,
            "turn_id": item.turn_id,
            "seq": first + index,
            "role": item.role,
            "status": item.status,
            "text": item.text,
            "created_unix": item.created_unix,
        }
        for index, item in enumerate(items)
    ]
    connection.execute(conversation_items.insert(), values)
    return [
        Item(item.id, item.role, item.text, first + index, item.status, item.created_unix, item.turn_id)
        for index, item in enumerate(items)
    ]


def not_found(name: str, kind: str = "Conversation", param: str | None = None) -> NotFound:
    return NotFound(f"{kind} with id '{name[:64]}' not found.", param=param)


def item_of(row: Any) -> Item:
    return Item(row.id, row.role, row.text, row.seq, row.status, row.created_unix, row.turn_id, row.turn_status or "")


def _with_turns() -> sa.Select[Any]:
    joined = conversation_items.outerjoin(turns, turns.c.id == _items.turn_id)
    return sa.select(conversation_items, turns.c.status.label("turn_status")).select_from(joined)


def _find(connection: sa.Connection, tenant: str, conversation_id: str, param: str | None = None) -> Conversation:
    query = sa.select(conversations).where(_of.id == conversation_id, _of.tenant == tenant)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise not_found(conversation_id, param=param)
    return _conversation(row)


def _touch(connection: sa.Connection, tenant: str, conversation_id: str) -> None:
    touched = connection.execute(
        conversations.update().where(_of.id == conversation_id, _of.tenant == tenant).values(updated_unix=time.time())
    ).rowcount
    if not touched:
        raise not_found(conversation_id)


def _item(connection: sa.Connection, conversation_id: str, item_id: str, param: str | None = None) -> Item:
    query = _with_turns().where(_items.id == item_id, _items.conversation_id == conversation_id)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise not_found(item_id, "Item", param)
    return item_of(row)


def _conversation(row: Any) -> Conversation:
    values = row._mapping
    return Conversation(
        row.id,
        row.tenant,
        row.created_unix,
        row.updated_unix,
        json.loads(row.metadata_json),
        values["items"],
        row.characters,
    )
