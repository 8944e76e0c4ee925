"""Databases that are locked, full or restarted while answers are kept."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from control_plane.contracts.conversation import Turn, TurnStatus
from control_plane.contracts.worker import Delta, Done, Finish, FinishReason
from control_plane.gateway.history.history import History
from control_plane.store import Database, Turns
from control_plane.store.patience import Patience
from control_plane.store.sweep import sweep
from tests.integration.gateway.rig import MODEL, RawClient, Rig, chat_body, request, say
from tests.integration.gateway.store import keeping
from tests.postgres import Postgres
from tests.unit.gateway.fakes import Submitted, until

LOCKED_S = 10.0


async def conversation(rig: Rig) -> str:
    return str((await rig.post("/v1/conversations", {})).json["id"])


def history_of(rig: Rig) -> History:
    history = rig.gateway._history
    assert history is not None
    return history


async def texts(rig: Rig, name: str) -> list[tuple[str, str]]:
    data = (await rig.get(f"/v1/conversations/{name}/items?order=asc")).json["data"]
    return [(item["content"][0]["text"], item["turn"]["status"]) for item in data]


async def read_until(client: RawClient, received: bytes, mark: bytes) -> bytes:
    async with asyncio.timeout(30):
        while mark not in received:
            received += await client.reader.read(65536)
    return received


def piece(submitted: Submitted, text: str) -> None:
    submitted.sink.delta(Delta(1, [5], text))


def end(submitted: Submitted) -> None:
    submitted.sink.delta(Delta(1, [], "", finish=Finish(FinishReason.STOP, 3), done=Done(3, 0, 3)))


async def test_a_locked_file_stalls_no_stream(tmp_path: Path) -> None:
    """HI03: an exclusive lock for ten seconds in the middle of a stream: each delta still goes out, and the end is
    there when the lock is gone."""
    async with keeping("", tmp_path) as rig:
        rig.router.play = None
        name = await conversation(rig)
        client = await rig.connect()
        client.send(request(body=chat_body(stream=True, conversation=name)))
        submitted = await rig.call()
        piece(submitted, "a0")
        received = await read_until(client, b"", b"a0")
        with sqlite3.connect(tmp_path / "deck.db", isolation_level=None) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            since = time.monotonic()
            for number in range(1, 10):
                piece(submitted, f"a{number}")
                # It comes while the lock is held: nothing else has happened.
                received = await read_until(client, received, f"a{number}".encode())
            end(submitted)
            received = await read_until(client, received, b"[DONE]")
            held = time.monotonic() - since
            assert held < LOCKED_S
            await asyncio.sleep(LOCKED_S - held)
            assert (await texts(rig, name))[1] == ("", "in_progress")
            holder.execute("COMMIT")
        holder.close()
        for _ in range(2000):
            if (await texts(rig, name))[1][1] != "in_progress":
                break
            await asyncio.sleep(0.01)
        assert (await texts(rig, name))[1] == ("".join(f"a{number}" for number in range(10)), "completed")
        await until(lambda: not list((tmp_path / "journals").rglob("turn_*")))


async def test_a_turn_that_cannot_be_stored_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("control_plane.gateway.history.history.ASK_S", 0.2)
    async with keeping("", tmp_path) as rig:
        name = await conversation(rig)
        holder = sqlite3.connect(tmp_path / "deck.db", isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        answer = await rig.chat("SENTINEL2", conversation=name)
        holder.execute("COMMIT")
        holder.close()
        assert (answer.status, answer.error["code"]) == (503, "no_capacity")
        assert rig.router.submitted == []
        assert await texts(rig, name) == []
    assert "SENTINEL" not in caplog.text


def stored(folder: Path) -> list[tuple[str, str]]:
    """How each turn ended, and its answer."""
    with contextlib.closing(sqlite3.connect(folder / "deck.db")) as connection:
        query = "SELECT turns.status, text FROM turns JOIN conversation_items ON conversation_items.id = answer_id"
        return connection.execute(query).fetchall()


def change(folder: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(folder / "deck.db", isolation_level=None)) as connection:
        connection.execute(statement)


# A full disk, as far as writes are concerned.
FULL = "CREATE TRIGGER full BEFORE UPDATE ON turns BEGIN SELECT RAISE(ABORT, 'full'); END"


@pytest.mark.parametrize("dies", [True, False], ids=["dead", "alive"])
async def test_an_end_that_is_not_stored_in_time_is_told_and_stored_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, dies: bool
) -> None:
    """HI03, SE05: the write is tried for so long; the log has no content; the gateway's timer brings it into the store
    while it lives, and the next sweep when it is dead."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr("control_plane.gateway.history.history.END_S", 0.2)
    monkeypatch.setattr("control_plane.gateway.history.history.AGAIN_S", 3600.0 if dies else 0.05)
    async with keeping("", tmp_path) as rig:
        rig.router.play = None
        name = await conversation(rig)
        asking = asyncio.create_task(rig.chat("SENTINEL2", conversation=name))
        submitted = await rig.call()
        change(tmp_path, FULL)
        say(submitted, ["SENTINEL3"])
        assert (await asking).status == 200
        await until(lambda: any("could not be stored" in record.message for record in caplog.records))
        assert stored(tmp_path) == [("in_progress", "")]
        if not dies:
            change(tmp_path, "DROP TRIGGER full")
            await until(lambda: stored(tmp_path) == [(TurnStatus.COMPLETED, "SENTINEL3")])
    if dies:
        [folder] = (tmp_path / "journals").iterdir()
        folder.rename(folder.with_name("g1.1.1.abcd"))
        change(tmp_path, "DROP TRIGGER full")
        database = Database.open("", tmp_path / "deck.db")
        assert sweep(tmp_path / "journals", Turns(database), Patience()) == 1
        database.close()
    assert stored(tmp_path) == [(TurnStatus.COMPLETED, "SENTINEL3")]
    assert list((tmp_path / "journals").iterdir()) == []
    assert "SENTINEL" not in caplog.text


def hold_at(rig: Rig, pages: int) -> None:
    """No connection of the gateway makes its file larger than this, or than it is."""

    def hold(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    sa.event.listen(history_of(rig).turns._database._engine, "checkout", hold)


async def test_a_full_disk_is_told_at_once_and_what_was_said_is_stored_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr("control_plane.gateway.history.history.ASK_S", 3600.0)
    monkeypatch.setattr("control_plane.gateway.history.history.END_S", 3600.0)
    monkeypatch.setattr("control_plane.gateway.history.history.AGAIN_S", 0.05)
    long = "SENTINEL" * 800
    async with keeping("", tmp_path) as rig:
        name = await conversation(rig)
        hold_at(rig, 1)
        for _ in range(200):
            ran = len(rig.router.submitted)
            answer = await rig.post("/v1/responses", {"model": MODEL, "input": "SENTINEL" * 30})
            if answer.status != 200:
                break
        assert (answer.status, answer.error["code"]) == (507, "store_full")
        assert "disk" in answer.error["message"]
        assert answer.headers["x-should-retry"] == "false"
        assert len(rig.router.submitted) == ran
        hold_at(rig, 100_000)
        rig.router.play = None
        asking = asyncio.create_task(rig.chat("hi", conversation=name))
        submitted = await rig.call(ran + 1)
        hold_at(rig, 1)
        say(submitted, [long])
        assert (await asking).status == 200
        await until(lambda: bool(history_of(rig)._left))
        assert await texts(rig, name) == [("hi", "in_progress"), ("", "in_progress")]
        hold_at(rig, 100_000)
        await until(lambda: stored(tmp_path)[-1] == (TurnStatus.COMPLETED, long))
        await until(lambda: not history_of(rig)._left)
        assert (await texts(rig, name))[0] == ("hi", "completed")
    assert list((tmp_path / "journals").iterdir()) == []
    assert "SENTINEL" not in caplog.text


@pytest.mark.parametrize("outage", ["short", "long", "until it is dead"])
async def test_a_turn_whose_commit_was_not_acknowledged_is_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outage: str
) -> None:
    """HI03: its caller hears 503 and sends it again; the conversation has it once."""
    monkeypatch.setattr("control_plane.gateway.history.history.ASK_S", 0.2)
    monkeypatch.setattr("control_plane.gateway.history.history.END_S", 60.0 if outage == "short" else 0.2)
    monkeypatch.setattr("control_plane.gateway.history.history.AGAIN_S", 0.05 if outage == "long" else 3600.0)
    away = True

    def unacknowledged(self: Turns, turn: Turn) -> None:
        begin(self, turn)
        if away:
            raise OperationalError("COMMIT", {}, Exception("the connection was lost"))

    def unreachable(self: Turns, turn_id: str) -> None:
        if away:
            raise OperationalError("DELETE", {}, Exception("the connection was lost"))
        withdraw(self, turn_id)

    begin, withdraw = Turns.begin, Turns.withdraw
    monkeypatch.setattr(Turns, "begin", unacknowledged)
    monkeypatch.setattr(Turns, "withdraw", unreachable)
    async with keeping("", tmp_path) as rig:
        name = await conversation(rig)
        answer = await rig.chat("hi", conversation=name)
        assert (answer.status, answer.error["code"]) == (503, "no_capacity")
        assert await texts(rig, name) == [("hi", "in_progress"), ("", "in_progress")]
        if outage != "short":
            # It is no longer tried without a rest.
            await until(lambda: bool(history_of(rig)._left))
        if outage != "until it is dead":
            away = False
            await until(lambda: stored(tmp_path) == [])
            assert (await rig.chat("hi", conversation=name)).status == 200
            [asked, _] = await texts(rig, name)
            assert asked == ("hi", "completed")
    if outage == "until it is dead":
        away = False
        [folder] = (tmp_path / "journals").iterdir()
        folder.rename(folder.with_name("g1.1.1.abcd"))
        database = Database.open("", tmp_path / "deck.db")
        assert sweep(tmp_path / "journals", Turns(database), Patience()) == 0
        database.close()
        assert stored(tmp_path) == []
    assert list((tmp_path / "journals").iterdir()) == []


async def test_postgresql_is_restarted_in_the_middle(tmp_path: Path, postgres: Postgres) -> None:
    """HI03: a restart of PostgreSQL during a stream."""
    async with keeping(postgres.new_database(), tmp_path) as rig:
        rig.router.play = None
        name = await conversation(rig)
        client = await rig.connect()
        client.send(request(body=chat_body(stream=True, conversation=name)))
        submitted = await rig.call()
        piece(submitted, "before ")
        received = await read_until(client, b"", b"before ")
        await asyncio.to_thread(postgres.stop)
        piece(submitted, "between ")
        received = await read_until(client, received, b"between ")
        end(submitted)
        await asyncio.to_thread(postgres.start)
        await read_until(client, received, b"[DONE]")
        for _ in range(2000):
            found = await texts(rig, name)
            if found[1][1] != "in_progress":
                break
            await asyncio.sleep(0.01)
        assert found == [("hi", "completed"), ("before between ", "completed")]


async def test_nothing_that_was_said_is_told(
    kept: Rig, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """SE05: prompts and outputs are in no log, no metric and no error."""
    caplog.set_level(logging.DEBUG)
    kept.router.play = lambda submitted: say(submitted, ["SENTINEL3"])
    name = await conversation(kept)
    for path, body in (
        ("/v1/chat/completions", chat_body("SENTINEL2", conversation=name)),
        ("/v1/chat/completions", chat_body("SENTINEL2", conversation="conv_none")),
        ("/v1/chat/completions", chat_body("SENTINEL2" * 1000, conversation=name)),
        ("/v1/responses", {"model": "m", "input": "SENTINEL2", "stream": True}),
        ("/v1/responses", {"model": "m", "input": "SENTINEL2", "previous_response_id": "resp_none"}),
        ("/v1/responses", {"model": "m", "input": [{"role": "user", "content": [{"type": "x", "text": "SENTINEL2"}]}]}),
        (f"/v1/conversations/{name}/items", {"items": [{"role": "SENTINEL2", "content": "SENTINEL2"}]}),
        ("/v1/conversations", {"metadata": {"k": "SENTINEL2" * 100}}),
        ("/tokenize", {"model": "m", "prompt": "SENTINEL2", "messages": []}),
    ):
        answer = await kept.post(path, body)
        if answer.status >= 400:
            assert b"SENTINEL" not in answer.body
    assert b"SENTINEL" not in (await kept.get("/metrics")).body
    told = capfd.readouterr()
    assert "SENTINEL" not in caplog.text + told.out + told.err
