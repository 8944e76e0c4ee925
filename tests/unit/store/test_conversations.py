"""Conversations and turns, on SQLite and on PostgreSQL."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from control_plane.contracts.conversation import Item, Turn, TurnEnd, TurnStatus
from control_plane.contracts.errors import InvalidRequest, NotFound
from control_plane.store import Conversations, Database, Turns
from tests.unit.store.conftest import Open


@pytest.fixture
def conversations(database: Database) -> Conversations:
    made = Conversations(database)
    made.create("conv_1", "acme", {"a": "b"}, [])
    return made


@pytest.fixture
def turns(database: Database) -> Turns:
    return Turns(database)


def turn(number: int, text: str = "hi", **fields: object) -> Turn:
    values: dict[str, object] = {
        "id": f"turn_{number}",
        "tenant": "acme",
        "api": "chat",
        "model": "m",
        "owner": "g1",
        "answer_id": f"msg_answer_{number}",
        "created_unix": time.time(),
        "messages": [Item(f"msg_{number}", "user", text)],
        "conversation_id": "conv_1",
    }
    return Turn(**(values | fields))  # type: ignore[arg-type]


def told(conversations: Conversations, conversation_id: str = "conv_1") -> list[tuple[int, str, str, str]]:
    items = conversations.history("acme", conversation_id)
    return [(item.seq, item.role, item.text, item.status) for item in items]


def test_a_turn_and_its_answer_are_kept(conversations: Conversations, turns: Turns) -> None:
    turns.begin(turn(1))
    assert told(conversations) == [(1, "user", "hi", "completed"), (2, "assistant", "", "in_progress")]
    assert turns.end("turn_1", TurnEnd(TurnStatus.COMPLETED, "hello", "", 3, 0, 2))
    assert told(conversations) == [(1, "user", "hi", "completed"), (2, "assistant", "hello", "completed")]
    kept = turns.get("acme", "turn_1")
    assert (kept.status, kept.prompt_tokens, kept.output_tokens) == (TurnStatus.COMPLETED, 3, 2)
    assert kept.answer is not None
    assert kept.answer.text == "hello"
    whole = conversations.get("acme", "conv_1")
    assert (whole.items, whole.characters) == (2, 7)


def test_begun_and_ended_again_changes_nothing(conversations: Conversations, turns: Turns) -> None:
    turns.begin(turn(1))
    turns.begin(turn(1))
    assert turns.end("turn_1", TurnEnd(TurnStatus.CANCELLED, "hel"))
    assert not turns.end("turn_1", TurnEnd(TurnStatus.FAILED, ""))
    assert told(conversations) == [(1, "user", "hi", "completed"), (2, "assistant", "hel", "incomplete")]
    assert conversations.history("acme", "conv_1")[1].turn_status == "cancelled"
    assert conversations.get("acme", "conv_1").characters == 5


def test_a_turn_that_was_withdrawn_never_was(conversations: Conversations, turns: Turns) -> None:
    turns.begin(turn(1))
    turns.withdraw("turn_1")
    turns.withdraw("turn_1")
    assert told(conversations) == []
    assert conversations.get("acme", "conv_1").characters == 0
    turns.begin(turn(2))
    assert [item.seq for item in conversations.history("acme", "conv_1")] == [3, 4]


def test_ends_and_withdrawals_beside_deletions_keep_the_counts(open_store: Open, conversations: Conversations) -> None:
    """All of them lock the conversation first: none waits for another that waits for it, and none counts what another
    is taking away."""
    one, other = Turns(open_store()), Conversations(open_store())
    for number in range(40):
        one.begin(turn(number))

    def end(number: int) -> None:
        if number % 2:
            one.withdraw(f"turn_{number}")
        else:
            one.end(f"turn_{number}", TurnEnd(TurnStatus.COMPLETED, "hello"))

    def delete(number: int) -> None:
        with suppress(NotFound):
            other.delete_item("acme", "conv_1", f"msg_answer_{number}")

    with ThreadPoolExecutor(8) as pool:
        work = [pool.submit(step, number) for number in range(40) for step in (end, delete)]
        for each in work:
            each.result()
    whole, items = conversations.get("acme", "conv_1"), told(conversations)
    assert whole.items == len(items)
    assert whole.characters == sum(len(text) for _, _, text, _ in items)


def test_parallel_turns_lose_nothing(open_store: Open, conversations: Conversations) -> None:
    """HI02: 20 parallel turns through two gateways' connections: unique increasing numbers, each answer after its
    message, none lost."""
    opened = [open_store(), open_store()]

    def run(number: int) -> None:
        mine = Turns(opened[number % 2])
        mine.begin(turn(number, f"question {number}"))
        mine.end(f"turn_{number}", TurnEnd(TurnStatus.COMPLETED, f"answer {number}"))

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(run, range(20)))
    items = conversations.history("acme", "conv_1")
    assert [item.seq for item in items] == list(range(1, 41))
    pairs = {(ask.text, answer.text) for ask, answer in zip(items[::2], items[1::2], strict=True)}
    assert pairs == {(f"question {number}", f"answer {number}") for number in range(20)}


def test_others_find_nothing(conversations: Conversations, turns: Turns) -> None:
    """HI02: another tenant's key hears that there is no such thing."""
    turns.begin(turn(1))
    for ask in (
        lambda: conversations.get("other", "conv_1"),
        lambda: conversations.update("other", "conv_1", {}),
        lambda: conversations.delete("other", "conv_1"),
        lambda: conversations.add("other", "conv_1", [Item("x", "user", "y")]),
        lambda: conversations.items("other", "conv_1", "asc", "", 5),
        lambda: conversations.item("other", "conv_1", "msg_1"),
        lambda: conversations.delete_item("other", "conv_1", "msg_1"),
        lambda: turns.begin(turn(2, tenant="other")),
        lambda: turns.get("other", "turn_1"),
        lambda: turns.delete("other", "turn_1"),
    ):
        with pytest.raises(NotFound):
            ask()
    assert list(conversations.of_tenant("other", "asc", "", 5).rows) == []
    assert len(told(conversations)) == 2


def test_deleted_means_deleted(database: Database, conversations: Conversations, turns: Turns) -> None:
    turns.begin(turn(1, "SECRET"))
    conversations.delete("acme", "conv_1")
    assert not turns.end("turn_1", TurnEnd(TurnStatus.COMPLETED, "SECRET"))
    with database.transaction() as connection:
        for table in ("conversations", "turns", "conversation_items"):
            assert connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one() == 0
    with pytest.raises(NotFound):
        conversations.get("acme", "conv_1")


def test_an_item_that_was_deleted_stays_so(conversations: Conversations, turns: Turns) -> None:
    turns.begin(turn(1))
    assert conversations.delete_item("acme", "conv_1", "msg_answer_1").items == 1
    turns.end("turn_1", TurnEnd(TurnStatus.COMPLETED, "late"))
    assert told(conversations) == [(1, "user", "hi", "completed")]
    assert conversations.get("acme", "conv_1").characters == 2


def test_pages(conversations: Conversations) -> None:
    conversations.add("acme", "conv_1", [Item(f"msg_{n}", "user", str(n)) for n in range(5)])
    page = conversations.items("acme", "conv_1", "asc", "", 2)
    assert ([item.id for item in page.rows], page.more) == (["msg_0", "msg_1"], True)
    page = conversations.items("acme", "conv_1", "asc", "msg_1", 3)
    assert ([item.id for item in page.rows], page.more) == (["msg_2", "msg_3", "msg_4"], False)
    page = conversations.items("acme", "conv_1", "desc", "msg_3", 9)
    assert [item.id for item in page.rows] == ["msg_2", "msg_1", "msg_0"]
    with pytest.raises(NotFound) as caught:
        conversations.items("acme", "conv_1", "asc", "nothing", 1)
    assert caught.value.param == "after"
    for number in range(2, 5):
        conversations.create(f"conv_{number}", "acme", {}, [])
    first = conversations.of_tenant("acme", "asc", "", 3)
    assert ([row.id for row in first.rows], first.more) == (["conv_1", "conv_2", "conv_3"], True)
    assert [row.id for row in conversations.of_tenant("acme", "asc", "conv_3", 3).rows] == ["conv_4"]
    assert [row.id for row in conversations.of_tenant("acme", "desc", "conv_3", 3).rows] == ["conv_2", "conv_1"]


def test_bounds_are_named(conversations: Conversations, turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control_plane.store.conversations.MAX_ITEMS", 3)
    turns.begin(turn(1))
    with pytest.raises(InvalidRequest) as caught:
        turns.begin(turn(2))
    assert (caught.value.param, caught.value.code) == ("conversation", "conversation_too_large")
    assert len(told(conversations)) == 2
    monkeypatch.setattr("control_plane.store.conversations.MAX_CHARACTERS", 4)
    with pytest.raises(InvalidRequest):
        conversations.add("acme", "conv_1", [Item("x", "user", "abc")])


def test_responses_are_chained(conversations: Conversations, turns: Turns) -> None:
    turns.begin(turn(1, "one", conversation_id=""))
    turns.end("turn_1", TurnEnd(TurnStatus.COMPLETED, "first"))
    turns.begin(turn(2, "two", conversation_id="", previous_id="turn_1"))
    turns.end("turn_2", TurnEnd(TurnStatus.COMPLETED, "second"))
    assert [item.text for item in turns.chain("acme", "turn_2")] == ["one", "first", "two", "second"]
    with pytest.raises(InvalidRequest):
        turns.chain("other", "turn_2")
    turns.delete("acme", "turn_1")
    with pytest.raises(InvalidRequest) as caught:
        turns.chain("acme", "turn_2")
    assert caught.value.param == "previous_response_id"
    assert turns.prune(time.time() + 1) == 1
    with pytest.raises(NotFound):
        turns.get("acme", "turn_2")


def test_of_many_responses_each_tenant_keeps_the_newest(turns: Turns) -> None:
    for number in range(1, 6):
        turns.begin(turn(number, conversation_id="", created_unix=float(number // 2)))
    for number in (1, 2, 3, 4):
        turns.end(f"turn_{number}", TurnEnd(TurnStatus.COMPLETED, "a"))
    turns.begin(turn(6, conversation_id="", created_unix=0.0, tenant="other"))
    turns.end("turn_6", TurnEnd(TurnStatus.COMPLETED, "a"))
    assert turns.keep_newest(4) == 0
    assert turns.keep_newest(2) == 2
    assert [turns.get("acme", f"turn_{number}").answer is not None for number in (3, 4, 5)] == [True, True, True]
    for number in (1, 2):
        with pytest.raises(NotFound):
            turns.get("acme", f"turn_{number}")
    assert turns.get("other", "turn_6").messages


def test_responses_of_conversations_are_not_thinned_out(conversations: Conversations, turns: Turns) -> None:
    for number in (1, 2):
        turns.begin(turn(number))
        turns.end(f"turn_{number}", TurnEnd(TurnStatus.COMPLETED, "a"))
    assert turns.keep_newest(0) == 0
    assert len(told(conversations)) == 4


def test_a_long_chain_is_read_at_once(turns: Turns) -> None:
    for number in range(1, 301):
        before = f"turn_{number - 1}" if number > 1 else ""
        turns.begin(turn(number, str(number), conversation_id="", previous_id=before))
        turns.end(f"turn_{number}", TurnEnd(TurnStatus.COMPLETED, f"a{number}"))
    said = [item.text for item in turns.chain("acme", "turn_300")]
    assert said == [text for number in range(1, 301) for text in (str(number), f"a{number}")]


def test_what_a_dead_gateway_left_is_closed(conversations: Conversations, turns: Turns) -> None:
    """HI03: nothing stays "running" for ever."""
    turns.begin(turn(1))
    turns.begin(turn(2, owner="g2"))
    assert turns.close("g1") == 1
    assert turns.close("g1") == 0
    assert [item.turn_status for item in conversations.history("acme", "conv_1")] == [
        "failed", "failed", "in_progress", "in_progress",
    ]  # fmt: skip
    assert turns.get("acme", "turn_1").reason == "gateway_lost"
    assert turns.close_older(time.time() - 60) == 0
    assert turns.close_older(time.time() + 60) == 1


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.one_of(st.sampled_from("\0\x1b[0"), st.characters(exclude_categories=["Cs"])), max_size=12))
def test_any_text_comes_back_as_it_was(conversations: Conversations, text: str) -> None:
    item = replace(Item("", "user", text), id=f"msg_{time.monotonic_ns()}")
    conversations.add("acme", "conv_1", [item])
    assert conversations.item("acme", "conv_1", item.id).text == text
    conversations.delete_item("acme", "conv_1", item.id)
