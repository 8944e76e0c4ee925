"""Turns: the calls whose messages and answers are kept.

A turn is begun before it runs and ended once; both may be tried again without being done twice. Its answer has its
place from the beginning, so that it follows what it answers however many turns run at one time.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa

from control_plane.contracts.conversation import MAX_ITEMS, Item, Turn, TurnEnd, TurnStatus
from control_plane.contracts.errors import InvalidRequest
from control_plane.store.conversation_tables import conversation_items, conversations, turns
from control_plane.store.conversations import add_items, item_of, not_found
from control_plane.store.database import Database

LOST: Final = "gateway_lost"
"""Why a turn failed whose gateway ended before it."""

_of = turns.c
_items = conversation_items.c
_RUNNING = str(TurnStatus.IN_PROGRESS)
_alone = sa.and_(_of.conversation_id.is_(None), _of.status != _RUNNING)


class Turns:
    """Every method is one short transaction and may wait for the database: call it from a thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, turn: Turn) -> None:
        """Store what came with it, and its answer as yet empty. Raises NotFound for a conversation that is none of the
        tenant's, InvalidRequest for one that is full."""
        with self._database.transaction() as connection:
            if _exists(connection, turn.id):
                return
            answer = Item(turn.answer_id, "assistant", "", status=_RUNNING)
            items = [
                replace(item, turn_id=turn.id, created_unix=turn.created_unix) for item in (*turn.messages, answer)
            ]
            if turn.conversation_id:
                add_items(connection, turn.tenant, turn.conversation_id, items)
            else:
                connection.execute(conversation_items.insert(), [_own(item, seq) for seq, item in enumerate(items, 1)])
            connection.execute(
                turns.insert().values(
                    id=turn.id,
                    tenant=turn.tenant,
                    conversation_id=turn.conversation_id or None,
                    previous_id=turn.previous_id,
                    api=turn.api,
                    model=turn.model,
                    owner=turn.owner,
                    answer_id=turn.answer_id,
                    settings_json=json.dumps(dict(turn.settings)),
                    status=_RUNNING,
                    reason="",
                    created_unix=turn.created_unix,
                    ended_unix=0.0,
                    prompt_tokens=0,
                    cached_tokens=0,
                    output_tokens=0,
                )
            )

    def withdraw(self, turn_id: str) -> None:
        """As if it had never begun: its caller was told that nothing was done."""
        with self._database.transaction() as connection:
            _hold_conversation(connection, turn_id)
            row = connection.execute(
                turns.delete().where(_of.id == turn_id, _of.status == _RUNNING).returning(_of.conversation_id)
            ).one_or_none()
            if row is None:
                return
            if row.conversation_id:
                _resize(connection, row.conversation_id, turn_id)
            connection.execute(conversation_items.delete().where(_items.turn_id == turn_id))

    def end(self, turn_id: str, end: TurnEnd) -> bool:
        """Whether it was running until now. What was deleted meanwhile stays so."""
        with self._database.transaction() as connection:
            _hold_conversation(connection, turn_id)
            row = connection.execute(
                turns.update()
                .where(_of.id == turn_id, _of.status == _RUNNING)
                .values(
                    status=str(end.status),
                    reason=end.reason,
                    ended_unix=time.time(),
                    prompt_tokens=end.prompt_tokens,
                    cached_tokens=end.cached_tokens,
                    output_tokens=end.output_tokens,
                    **({"model": end.model} if end.model else {}),
                )
                .returning(_of.answer_id, _of.conversation_id)
            ).one_or_none()
            if row is None:
                return False
            stored = connection.execute(
                conversation_items.update()
                .where(_items.id == row.answer_id)
                .values(text=end.text, status=end.status.of_item)
            ).rowcount
            if stored and row.conversation_id:
                connection.execute(
                    conversations.update()
                    .where(conversations.c.id == row.conversation_id)
                    .values(characters=conversations.c.characters + len(end.text), updated_unix=time.time())
                )
        return True

    def get(self, tenant: str, turn_id: str) -> Turn:
        """With its items. Raises NotFound."""
        with self._database.transaction() as connection:
            return _read(connection, tenant, turn_id)

    def delete(self, tenant: str, turn_id: str) -> None:
        """The response; with its items, unless they are a conversation's. Raises NotFound."""
        with self._database.transaction() as connection:
            row = connection.execute(
                turns.delete().where(_of.id == turn_id, _of.tenant == tenant).returning(_of.conversation_id)
            ).one_or_none()
            if row is None:
                raise not_found(turn_id, "Response")
            if row.conversation_id is None:
                connection.execute(conversation_items.delete().where(_items.turn_id == turn_id))

    def chain(self, tenant: str, turn_id: str) -> list[Item]:
        """What was said up to the end of this turn, oldest first. Raises InvalidRequest where a turn of it is gone."""
        first = sa.select(_of.id, _of.previous_id, sa.literal(0).label("depth"))
        chain = first.where(_of.id == turn_id, _of.tenant == tenant).cte("chain", recursive=True)
        before = sa.select(_of.id, _of.previous_id, chain.c.depth + 1).where(
            _of.id == chain.c.previous_id, _of.tenant == tenant, chain.c.depth < MAX_ITEMS
        )
        chain = chain.union_all(before)
        members = sa.select(chain.c.id, chain.c.previous_id).order_by(chain.c.depth.desc())
        said = (
            sa.select(conversation_items, _of.status.label("turn_status"))
            .select_from(chain.join(turns, _of.id == chain.c.id).join(conversation_items, _items.turn_id == _of.id))
            .order_by(chain.c.depth.desc(), _items.seq)
            .limit(MAX_ITEMS + 1)
        )
        with self._database.transaction() as connection:
            found = connection.execute(members).all()
            rows = connection.execute(said).all()
        if len(rows) > MAX_ITEMS:
            raise InvalidRequest(f"More than {MAX_ITEMS} items come before.", param="previous_response_id")
        if not found or found[0].previous_id:
            missing = found[0].previous_id if found else turn_id
            which = f", which comes before '{turn_id}'," if found else ""
            raise InvalidRequest(
                f"Previous response with id '{missing[:64]}'{which} not found.",
                param="previous_response_id",
                code="previous_response_not_found",
            )
        return [item_of(row) for row in rows]

    def close(self, owner: str) -> int:
        """End what a gateway that is no more has left running, with what is stored of it; how many there were."""
        return self._close(_of.owner == owner)

    def close_older(self, than_unix: float) -> int:
        """End what cannot be running any more, whoever ran it."""
        return self._close(_of.created_unix < than_unix)

    def _close(self, which: sa.ColumnElement[bool]) -> int:
        with self._database.transaction() as connection:
            rows = connection.execute(
                turns.update()
                .where(which, _of.status == _RUNNING)
                .values(status=str(TurnStatus.FAILED), reason=LOST, ended_unix=time.time())
                .returning(_of.answer_id)
            ).all()
            if rows:
                connection.execute(
                    conversation_items.update()
                    .where(_items.id.in_([row.answer_id for row in rows]))
                    .values(status=TurnStatus.FAILED.of_item)
                )
        return len(rows)

    def prune(self, older_than_unix: float) -> int:
        """Delete stored responses that belong to no conversation; how many there were."""
        return self._delete(sa.and_(_alone, _of.created_unix < older_than_unix))

    def keep_newest(self, most: int) -> int:
        """Delete each tenant's oldest stored responses that belong to no conversation, beyond so many of them; how many
        there were."""
        many = sa.select(_of.tenant).where(_alone).group_by(_of.tenant).having(sa.func.count() > most)
        with self._database.transaction() as connection:
            tenants = connection.execute(many).scalars().all()
        return sum(self._keep_newest(tenant, most) for tenant in tenants)

    def _keep_newest(self, tenant: str, most: int) -> int:
        """A transaction for each: whoever calls meanwhile waits for no more than one of them."""
        place = sa.tuple_(_of.created_unix, _of.id)
        own = sa.and_(_alone, _of.tenant == tenant)
        newest_first = (_of.created_unix.desc(), _of.id.desc())
        query = sa.select(_of.created_unix, _of.id).where(own).order_by(*newest_first).offset(most).limit(1)
        with self._database.transaction() as connection:
            first = connection.execute(query).one_or_none()
        if first is None:
            return 0
        mark = sa.tuple_(sa.literal(first.created_unix, sa.Float), sa.literal(first.id))
        return self._delete(sa.and_(own, place <= mark))

    def _delete(self, which: sa.ColumnElement[bool]) -> int:
        with self._database.transaction() as connection:
            connection.execute(conversation_items.delete().where(_items.turn_id.in_(sa.select(_of.id).where(which))))
            return connection.execute(turns.delete().where(which)).rowcount


def _exists(connection: sa.Connection, turn_id: str) -> bool:
    return connection.execute(sa.select(_of.id).where(_of.id == turn_id)).one_or_none() is not None


def _hold_conversation(connection: sa.Connection, turn_id: str) -> None:
    """Lock the turn's conversation before anything else of it, as whoever changes its items does. SQLite has one writer
    at a time, and a transaction there must not begin with a read that a write of others could overtake."""
    if connection.dialect.name == "sqlite":
        return
    of_turn = sa.select(_of.conversation_id).where(_of.id == turn_id).scalar_subquery()
    connection.execute(sa.select(conversations.c.id).where(conversations.c.id == of_turn).with_for_update())


def _resize(connection: sa.Connection, conversation_id: str, turn_id: str) -> None:
    """Count the items of this turn no longer; their numbers are not given again."""
    query = sa.select(_items.text).where(_items.turn_id == turn_id, _items.conversation_id == conversation_id)
    texts = connection.execute(query).scalars().all()
    connection.execute(
        conversations.update()
        .where(conversations.c.id == conversation_id)
        .values(
            items=conversations.c["items"] - len(texts), characters=conversations.c.characters - sum(map(len, texts))
        )
    )


def _own(item: Item, seq: int) -> dict[str, Any]:
    return {
        "id": item.id,
        "conversation_id": None,
        "turn_id": item.turn_id,
        "seq": seq,
        "role": item.role,
        "status": item.status,
        "text": item.text,
        "created_unix": item.created_unix,
    }


def _items_of(connection: sa.Connection, turn_id: str) -> list[Item]:
    query = (
        sa.select(conversation_items, turns.c.status.label("turn_status"))
        .select_from(conversation_items.join(turns, turns.c.id == _items.turn_id))
        .where(_items.turn_id == turn_id)
        .order_by(_items.seq)
    )
    return [item_of(row) for row in connection.execute(query).all()]


def _read(connection: sa.Connection, tenant: str, turn_id: str) -> Turn:
    row = connection.execute(sa.select(turns).where(_of.id == turn_id, _of.tenant == tenant)).one_or_none()
    if row is None:
        raise not_found(turn_id, "Response")
    items = _items_of(connection, turn_id)
    return Turn(
        id=row.id,
        tenant=row.tenant,
        api=row.api,
        model=row.model,
        owner=row.owner,
        answer_id=row.answer_id,
        created_unix=row.created_unix,
        messages=[item for item in items if item.id != row.answer_id],
        conversation_id=row.conversation_id or "",
        previous_id=row.previous_id,
        settings=json.loads(row.settings_json),
        status=TurnStatus(row.status),
        ended_unix=row.ended_unix,
        reason=row.reason,
        prompt_tokens=row.prompt_tokens,
        cached_tokens=row.cached_tokens,
        output_tokens=row.output_tokens,
        answer=next((item for item in items if item.id == row.answer_id), None),
    )
