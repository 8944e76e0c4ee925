"""How many conversations a tenant may have, on SQLite and on PostgreSQL."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from control_plane.contracts.conversation import Item
from control_plane.contracts.errors import InvalidRequest, NotFound
from control_plane.store import Conversations, Database
from control_plane.store.tenant_counts import tenant_counts
from tests.unit.store.conftest import Open
from tests.unit.store.test_store import migrate


def counts(database: Database) -> dict[str, int]:
    with database.transaction() as connection:
        rows = connection.execute(sa.select(tenant_counts)).all()
    return {row.tenant: row.conversations for row in rows}


def make(conversations: Conversations, name: str, tenant: str = "acme", most: int = 3) -> bool:
    """Whether it was made."""
    refused = None
    try:
        conversations.create(name, tenant, {}, [], most)
    except InvalidRequest as error:
        refused = error
    if refused is not None:
        assert refused.code == "too_many_conversations"
        assert "DELETE /v1/conversations/{id}" in refused.message
    return refused is None


def test_as_many_as_there_may_be_and_one_more_when_one_is_deleted(database: Database) -> None:
    conversations = Conversations(database)
    assert [make(conversations, f"conv_{number}") for number in range(5)] == [True, True, True, False, False]
    assert make(conversations, "conv_other", "other")
    with pytest.raises(NotFound):
        conversations.get("acme", "conv_3")
    with pytest.raises(NotFound):
        conversations.delete("acme", "conv_other")
    conversations.delete("acme", "conv_1")
    assert [make(conversations, f"conv_more_{number}") for number in range(2)] == [True, False]
    assert make(conversations, "conv_last", most=4), "the limit may be raised"
    assert not make(conversations, "conv_none", most=2), "and lowered: what is there stays"
    assert counts(database) == {"acme": 4, "other": 1}


def test_one_that_is_not_made_after_all_is_not_counted(database: Database) -> None:
    conversations = Conversations(database)
    too_many = [Item(f"msg_{number}", "user", "x") for number in range(4097)]
    with pytest.raises(InvalidRequest, match="at most 4096"):
        conversations.create("conv_1", "acme", {}, too_many, 3)
    assert counts(database) == {}
    with pytest.raises(NotFound):
        conversations.delete("acme", "conv_1")


def test_many_at_one_time_do_not_take_the_last_place_twice(open_store: Open) -> None:
    stores = [Conversations(open_store()) for _ in range(4)]
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda number: make(stores[number % 4], f"conv_{number}", most=5), range(24)))
    assert sum(made) == 5
    assert counts(open_store()) == {"acme": 5}


def test_what_was_there_before_it_was_counted_is_counted(database: Database, open_store: Open) -> None:
    conversations = Conversations(database)
    for number, tenant in enumerate(("acme", "acme", "other")):
        assert make(conversations, f"conv_{number}", tenant)
    with database.transaction() as connection:
        migrate(connection, "0003")
    assert counts(open_store()) == {"acme": 2, "other": 1}
