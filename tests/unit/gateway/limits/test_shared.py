"""What a server that answers strangely, or not at all, may do to calls: nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from control_plane import tasks
from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import Limits
from control_plane.gateway.limits.scope import scopes_of
from control_plane.gateway.limits.shared import Reply, SharedCounts
from tests.unit.gateway.fakes import until

SCOPES = scopes_of(Grant("k", limits=Limits(rpm=5)))
GOOD = [1, 1, 0, 0, 0, 0, 0, 0, 0]


class Server:
    """Answers every step with ``answer``; an exception is raised, None takes for ever."""

    def __init__(self) -> None:
        self.answer: Any = GOOD
        self.closed = False

    async def script_load(self, script: str) -> str:
        return "sha"

    async def script_exists(self, sha: str) -> list[bool]:
        return [True]

    async def evalsha(self, *arguments: Any) -> Any:
        if self.answer is None:
            await asyncio.Event().wait()
        return self.answer

    def pipeline(self, transaction: bool) -> Pipeline:
        return Pipeline(self)

    async def aclose(self) -> None:
        self.closed = True


class Pipeline:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._asked = 0

    def evalsha(self, *arguments: Any) -> None:
        self._asked += 1

    async def execute(self, raise_on_error: bool) -> list[Any]:
        return [await self._server.evalsha() for _ in range(self._asked)]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def counts(server: Server) -> AsyncIterator[SharedCounts]:
    made = SharedCounts("redis://127.0.0.1:1")
    made._server = server
    made.start()
    yield made
    await made.stop()
    assert server.closed


async def told(counts: SharedCounts) -> Reply | None:
    answer: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
    counts.ask("enter", "c", SCOPES, 1, answer.set_result)
    return await asyncio.wait_for(answer, 20)


@pytest.mark.parametrize("answer", [b"OK", 7, [], [1], [1, 2, 3], [1, *["x"] * 8], [1, *[None] * 8]])
async def test_an_answer_that_cannot_be_read_is_none_and_the_next_one_counts(
    counts: SharedCounts, server: Server, answer: Any
) -> None:
    assert await told(counts) is not None
    server.answer = answer
    assert await told(counts) is None
    assert (counts.up, counts.errors) == (False, 1)
    server.answer = GOOD
    await until(lambda: counts.up)
    assert await told(counts) is not None


async def test_whoever_asks_hears_something_when_the_task_that_sends_has_died(
    counts: SharedCounts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And it is logged and begun again."""
    monkeypatch.setattr(tasks, "AGAIN_S", 0.0)
    assert await told(counts) is not None

    def die(*_: Any) -> None:
        raise RuntimeError("nobody thought of this")

    monkeypatch.setattr(counts, "_tell", die)
    assert await told(counts) is None
    assert [record.__dict__["task"] for record in caplog.records if record.exc_info] == ["limits"]
    monkeypatch.undo()
    assert await told(counts) is not None


async def test_an_answer_is_heard_once(counts: SharedCounts, server: Server) -> None:
    """None at the deadline, whatever comes after."""
    heard: list[Reply | None] = []
    server.answer = None
    counts.ask("enter", "c", SCOPES, 1, heard.append)
    counts.ask("settle", "c", SCOPES, 1, None)
    await until(lambda: heard)
    server.answer = GOOD
    await until(lambda: counts.up and not counts._queue)
    assert heard == [None]
