"""A client that leaves, wherever its call is: nothing more is done for it, and nothing is left of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from control_plane.contracts.errors import DropReason, Unavailable
from control_plane.contracts.worker import Delta
from control_plane.gateway import reading
from control_plane.gateway.prompt.lanes import SMALL_CHARACTERS
from control_plane.gateway.prompt.model_prompt import ModelPrompt
from control_plane.gateway.schema.json_text import read_object
from tests.integration.gateway.rig import RawClient, Rig, chat_body, echo_words, gateway, request, say
from tests.unit.gateway.fakes import until

LEAVE: list[Callable[[RawClient], Any]] = [RawClient.close, RawClient.reset, RawClient.half_close]
leaving = pytest.mark.parametrize("leave", LEAVE, ids=["close", "reset", "half-close"])
either = pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])


async def gone(rig: Rig, count: int = 1) -> None:
    await until(lambda: rig.gateway.stats().responses.get(499) == count)
    await rig.idle()


@leaving
@either
async def test_before_the_first_token(rig: Rig, leave: Callable[[RawClient], Any], stream: bool) -> None:
    """C02."""
    rig.router.play = None
    client = await rig.connect()
    client.send(request(body=chat_body(stream=stream)))
    submitted = await rig.call()
    leave(client)
    await gone(rig)
    assert submitted.handle.cancelled == ["client_disconnected"]
    say(submitted, ["too late"])


@leaving
async def test_in_mid_stream(rig: Rig, leave: Callable[[RawClient], Any]) -> None:
    """C02."""
    rig.router.play = None
    client = await rig.connect()
    client.send(request(body=chat_body(stream=True)))
    submitted = await rig.call()
    submitted.sink.delta(Delta(1, [5], "x"))
    await client.reader.readuntil(b'"x"')
    leave(client)
    await gone(rig)
    assert submitted.handle.cancelled == ["client_disconnected"]
    say(submitted, ["too late"])


async def test_while_the_body_comes(rig: Rig) -> None:
    client = await rig.connect()
    client.send(request(body=b'{"model"', content_length="1000"))
    await until(lambda: rig.gateway.held)
    client.close()
    await gone(rig)
    assert rig.gateway.held == 0
    assert rig.router.submitted == []


@either
async def test_while_the_key_is_looked_up(rig: Rig, stream: bool) -> None:
    release, looking, looked = threading.Event(), threading.Event(), threading.Event()

    def delay() -> None:
        looking.set()
        release.wait(20)
        looked.set()

    rig.keys.delay = delay
    client = await rig.connect()
    client.send(request(body=chat_body(stream=stream)))
    await until(looking.is_set)
    client.close()
    await gone(rig)
    release.set()
    await until(looked.is_set)
    assert (await rig.chat()).status == 200
    assert len(rig.router.submitted) == 1


async def test_while_the_models_first_worker_is_awaited(rig: Rig) -> None:
    rig.router.bundles["cold"] = Unavailable("loading", reason=DropReason.MODEL_LOADING)
    client = await rig.connect()
    client.send(request(body=chat_body() | {"model": "cold"}))
    await until(lambda: "cold" in rig.router.asked)
    client.close()
    await gone(rig)
    asked = rig.router.asked.count("cold")
    await asyncio.sleep(0.6)
    assert rig.router.asked.count("cold") <= asked + 1
    assert rig.router.submitted == []


@either
async def test_while_the_prompt_is_tokenised(rig: Rig, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.chat()
    release, working = threading.Event(), threading.Event()

    def slow(self: ModelPrompt, messages: Any, tools: Any) -> list[int]:
        working.set()
        release.wait(20)
        return [5]

    monkeypatch.setattr(ModelPrompt, "chat", slow)
    client = await rig.connect()
    client.send(request(body=chat_body("x" * SMALL_CHARACTERS, stream=stream)))
    await until(working.is_set)
    client.close()
    await gone(rig)
    release.set()
    monkeypatch.undo()
    await rig.chat()
    assert len(rig.router.submitted) == 2


async def test_with_another_request_in_the_pipeline(rig: Rig) -> None:
    """Reading goes on while an answer is made, so leaving is seen also by who has sent more."""
    rig.router.play = None
    client = await rig.connect()
    client.send(request(body=chat_body()) + request(body=chat_body()))
    submitted = await rig.call()
    client.reset()
    await gone(rig, 2)
    assert submitted.handle.cancelled == ["client_disconnected"]
    assert len(rig.router.submitted) == 1


async def test_while_a_large_body_is_read(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    release, working = threading.Event(), threading.Event()

    def slow(body: bytes) -> dict[str, Any]:
        working.set()
        release.wait(20)
        return read_object(body)

    monkeypatch.setattr(reading, "read_object", slow)
    client = await rig.connect()
    client.send(request(body=chat_body("x" * 100_000)))
    await until(working.is_set)
    assert rig.gateway.held > 100_000
    client.close()
    await gone(rig)
    assert rig.gateway.held == 0
    release.set()
    assert (await rig.chat()).status == 200
    assert len(rig.router.submitted) == 1


async def test_while_it_reads_too_slowly(rig: Rig) -> None:
    rig.router.play = None
    client = await rig.connect()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.send(request(body=chat_body(stream=True)))
    submitted = await rig.call()
    for _ in range(100):
        submitted.sink.delta(Delta(1, [5], "x" * 10_000))
        await asyncio.sleep(0)
    client.reset()
    await gone(rig)
    assert submitted.handle.cancelled == ["client_disconnected"]


async def test_leaving_after_the_end_cancels_nothing(rig: Rig) -> None:
    client = await rig.connect()
    client.send(request(body=chat_body()))
    assert (await client.answer()).status == 200
    client.reset()
    await rig.idle()
    assert rig.router.submitted[0].handle.cancelled == []
    assert rig.gateway.stats().responses == {200: 1}


async def test_many_that_leave_at_random_moments_leave_nothing_behind() -> None:
    """C01 and C02, at random moments."""
    async with gateway() as rig:
        loop = asyncio.get_running_loop()

        def slowly(submitted: Any) -> None:
            def step(left: int) -> None:
                if submitted.handle.cancelled:
                    return
                if not left:
                    say(submitted, ["end"])
                    return
                if submitted.call.stream:
                    submitted.sink.delta(Delta(1, [5], "x"))
                loop.call_later(0.005, step, left - 1)

            step(6)

        rig.router.play = slowly

        async def visit(index: int) -> None:
            client = await rig.connect()
            client.send(request(body=chat_body(stream=bool(index % 2))))
            await asyncio.sleep(index % 13 * 0.004)
            (client.reset if index % 3 else client.close)()

        await asyncio.gather(*(visit(index) for index in range(150)))
        await rig.idle()
        rig.router.play = echo_words
        assert (await rig.chat()).status == 200
        stats = rig.gateway.stats()
        assert stats.requests_total == 151
        assert set(stats.responses) <= {200, 499}
        cancelled = sum(bool(submitted.handle.cancelled) for submitted in rig.router.submitted)
        assert cancelled <= stats.responses.get(499, 0)
