"""Several gateways with one server for their limits; each of them, and the server, dies in the middle.

Where a test waits for the end of a minute, the minute is a real one of two seconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest

from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import Limits, StoreDown
from control_plane.contracts.worker import Delta
from tests.integration.gateway.rig import CHAT, KEY, MODEL, Rig, chat_body, eventually, gateway, request, say
from tests.unit.gateway.fakes import Submitted, until
from tests.valkey_server import ValkeyServer, valkey_server

SHORT_S = 2.0
PATIENT_S = 20.0
HELLO: Any = [{"role": "user", "content": "hi"}]


@pytest.fixture
def server() -> Iterator[ValkeyServer]:
    with valkey_server() as started:
        yield started


@asynccontextmanager
async def two(
    server: ValkeyServer,
    *,
    window_s: float = 60.0,
    timeout_s: float = PATIENT_S,
    store_down: StoreDown = "open",
    **limits: int,
) -> AsyncIterator[tuple[Rig, Rig]]:
    options = {
        "limit_store": server.url,
        "limit_gateways": 2,
        "limit_window_s": window_s,
        "limit_timeout_s": timeout_s,
    }
    async with gateway(options=options) as first, gateway(options=options) as second:
        for rig in (first, second):
            rig.keys.granted[KEY] = Grant("key-1", "acme", limits=Limits(**limits), limit_store_down=store_down)
        yield first, second
        for rig in (first, second):
            await rig.idle()


async def left(rig: Rig, what: str = "tokens") -> int:
    return int((await rig.post(CHAT, b"[]")).headers[f"x-ratelimit-remaining-{what}"])


async def answers(rig: Rig, status: int) -> bool:
    return (await rig.chat(max_tokens=1)).status == status


async def whole(rig: Rig, limit: int) -> None:
    """Return when the whole limit is back."""

    async def back() -> bool:
        return await left(rig) == limit

    await eventually(back)


async def test_what_generates_nothing_counts_at_all_gateways(server: ValkeyServer) -> None:
    """One request each, wherever it is sent, also where tokens are used up."""
    async with two(server, rpm=4, tpm=1) as rigs:
        first, second = rigs
        body = {"model": MODEL, "prompt": "hi"}
        answers = [await rig.post("/tokenize", body) for rig in (first, second, first, second, first)]
        assert [answer.status for answer in answers] == [200] * 4 + [429]
        left = [answer.headers["x-ratelimit-remaining-requests"] for answer in answers]
        assert left == ["3", "2", "1", "0", "0"]
        assert answers[-1].error["type"] == "requests"


async def test_two_gateways_and_forty_calls(server: ValkeyServer) -> None:
    """The issue's own: two gateways, one key with TPM 1000, forty concurrent calls: never over, and all comes back."""
    loop, taken, held, most = asyncio.get_running_loop(), list[tuple[float, int]](), 0, 0

    def play(submitted: Submitted) -> None:
        nonlocal held, most
        cost = len(submitted.call.prompt_token_ids) + submitted.call.sampling.max_tokens
        held += cost
        most = max(most, held)
        at = loop.time()

        def answer() -> None:
            nonlocal held
            pieces = ["x"] * (5 + len(taken) % 30)
            held -= cost
            taken.append((at, len(submitted.call.prompt_token_ids) + len(pieces)))
            say(submitted, pieces)

        loop.call_later(0.05, answer)

    async with two(server, window_s=SHORT_S, tpm=1000) as rigs:
        clients = []
        for rig in rigs:
            rig.router.play = play
            clients.append(openai.AsyncOpenAI(base_url=f"{rig.gateway.url}/v1", api_key=KEY, max_retries=0))
        statuses: list[Any] = []

        async def one(number: int) -> None:
            create = clients[number % 2].chat.completions.create
            try:
                answer = await create(model=MODEL, messages=HELLO, max_tokens=60 + number, stream=bool(number % 3))
                if number % 3:
                    assert [chunk async for chunk in answer]
                statuses.append(200)
            except openai.RateLimitError as error:
                statuses.append((429, error.type))

        for _ in range(3):
            await asyncio.gather(*(one(number) for number in range(40)))
        assert set(statuses) == {200, (429, "tokens")}
        assert most <= 1000
        for end, _ in taken:
            assert sum(tokens for at, tokens in taken if end - SHORT_S + 0.3 < at <= end) <= 1000
        for rig in rigs:
            await rig.idle()
            await whole(rig, 1000)
        for client in clients:
            await client.close()


async def test_a_gateway_that_is_killed_leaves_nothing_reserved(server: ValkeyServer) -> None:
    """kill -9: what it had reserved ends with the minute, and its calls no longer count as running."""
    limits = {"tpm": 1000, "concurrency": 1}
    words = ["-m", "tests.integration.gateway.lone_gateway", server.url, str(SHORT_S), json.dumps(limits)]
    lone = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=asyncio.subprocess.PIPE)
    assert lone.stdout is not None
    try:
        async with asyncio.timeout(60.0):
            port = int(await lone.stdout.readline())
        async with two(server, window_s=SHORT_S, **limits) as (rig, _):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request(CHAT, chat_body(max_tokens=400)))
            async with asyncio.timeout(60.0):
                assert await lone.stdout.readline() == b"held\n"
            assert await left(rig) < 600
            await asyncio.sleep(SHORT_S)
            busy = await rig.chat(max_tokens=1)
            assert (busy.status, "calls at one time" in busy.error["message"]) == (429, True), "its lease is renewed"
            lone.kill()
            await lone.wait()
            await eventually(lambda: answers(rig, 200))
            await whole(rig, 1000)
            writer.close()
    finally:
        if lone.returncode is None:
            lone.kill()
            await lone.wait()


@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_the_server_goes_and_comes_back(server: ValkeyServer, how: str) -> None:
    """Open: each gateway grants its half meanwhile, knowing what it has let through before; then together again, with
    what began and ended meanwhile."""
    async with two(server, timeout_s=0.3, rpm=4, tpm=100_000) as (first, second):
        first.router.play = None
        running = asyncio.create_task(first.chat(max_tokens=100))
        submitted = await first.call()
        assert (await second.chat(max_tokens=1)).status == 200
        assert await left(second, "requests") == 2, "the server knows how that one ended"
        assert first.gateway.stats().limit_store == "up"
        if how == "killed":
            server.kill()
        else:
            server.freeze()
        say(submitted, ["x"] * 7)
        assert (await running).status == 200
        first.router.play = lambda each: say(each, ["x"])
        alone = [await first.chat(max_tokens=1) for _ in range(3)]
        assert [answer.status for answer in alone] == [200, 429, 429], "2 of 4, and one was let in before"
        assert alone[0].headers["x-ratelimit-limit-requests"] == "2"
        assert "(1/2 of it, while the gateways cannot count together)" in alone[2].error["message"]
        assert first.gateway.stats().limit_store == "down"
        metrics = (await first.get("/metrics")).body.decode()
        assert "inferdeck_gateway_limit_store_up 0.0" in metrics
        assert "inferdeck_gateway_limit_gateways 2.0" in metrics
        assert "inferdeck_gateway_limit_store_errors_total 0.0" not in metrics
        if how == "killed":
            server.start()
        else:
            server.thaw()
        await until(lambda: first.gateway.stats().limit_store == "up")
        await until(lambda: second.gateway.stats().limit_store == "up")
        prompt = len(submitted.call.prompt_token_ids)
        calls, tokens = 2, 2 * prompt + 7 + 1
        if how == "frozen":
            # It has not forgotten what the other gateway had done.
            calls, tokens = calls + 1, tokens + prompt + 1

        async def told() -> bool:
            return (4 - await left(second, "requests"), 100_000 - await left(second)) == (calls, tokens)

        await eventually(told)
        statuses = [(await second.chat(max_tokens=1)).status for _ in range(3)]
        assert statuses == ([200, 429, 429] if how == "frozen" else [200, 200, 429])


async def test_a_policy_that_is_closed_takes_no_call_without_the_server(server: ValkeyServer) -> None:
    async with two(server, timeout_s=0.3, store_down="closed", rpm=100) as (rig, _):
        assert (await rig.chat(max_tokens=1)).status == 200
        server.kill()
        answer = await rig.chat(max_tokens=1)
        assert (answer.status, answer.error["type"]) == (503, "server_error")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        server.start()
        await until(lambda: rig.gateway.stats().limit_store == "up")
        assert (await rig.chat(max_tokens=1)).status == 200


async def test_a_frozen_server_holds_up_nobody_for_long(server: ValkeyServer) -> None:
    """The event loop goes on, and only the first call waits for the timeout."""
    async with two(server, timeout_s=0.2, rpm=1000) as (rig, _):
        await rig.chat(max_tokens=1)
        server.freeze()
        answers = await asyncio.gather(*(rig.chat(max_tokens=1) for _ in range(20)), rig.get("/health"))
        assert {answer.status for answer in answers} == {200}
        server.thaw()


async def test_a_client_that_leaves_while_the_server_is_asked(server: ValkeyServer) -> None:
    async with two(server, rpm=10, tpm=1000) as (rig, other):
        rig.router.play = None
        server.freeze()
        client = await rig.connect()
        client.send(request(CHAT, chat_body(max_tokens=100)))
        await until(lambda: rig.gateway.stats().in_flight == 1)
        client.reset()
        await until(lambda: rig.gateway.stats().in_flight == 0)
        server.thaw()
        await until(lambda: rig.gateway.stats().reserved_tokens == 0)
        assert await left(rig) == 1000
        assert await left(other) == 1000
        assert rig.router.submitted == []


async def test_a_stream_is_told_where_it_stands_among_all_gateways(server: ValkeyServer) -> None:
    """L01 over several gateways: what is left is what all of them have left."""
    async with two(server, rpm=10, tpm=1000) as (first, second):
        remaining = []
        for number in range(6):
            rig = (first, second)[number % 2]
            answer = await rig.chat(max_tokens=5, stream=True)
            remaining.append(int(answer.headers["x-ratelimit-remaining-requests"]))
        assert remaining == [9, 8, 7, 6, 5, 4]


async def test_a_stream_goes_on_when_the_server_is_gone(server: ValkeyServer) -> None:
    async with two(server, timeout_s=0.3, tpm=1000) as (rig, _):
        rig.router.play = None
        client = await rig.connect()
        client.send(request(CHAT, chat_body(max_tokens=100, stream=True)))
        submitted = await rig.call()
        submitted.sink.delta(Delta(1, [5], "x"))
        server.kill()
        say(submitted, ["y"] * 3)
        assert b"[DONE]" in (await client.answer()).body
        server.start()


async def test_what_runs_when_the_server_has_forgotten_everything_is_told_to_it(server: ValkeyServer) -> None:
    async with two(server, timeout_s=0.3, tpm=1000, concurrency=1) as (first, second):
        first.router.play = None
        running = asyncio.create_task(first.chat(max_tokens=100))
        submitted = await first.call()
        held = len(submitted.call.prompt_token_ids) + 100
        server.kill()
        server.start()

        async def known() -> bool:
            return await left(second) == 1000 - held

        await eventually(known)
        assert (await second.chat(max_tokens=1)).status == 429
        say(submitted, ["x"])
        assert (await running).status == 200

        async def settled() -> bool:
            return await left(second) == 1000 - held + 99

        await eventually(settled)


async def test_alone_a_call_that_is_larger_than_the_share_is_asked_to_come_again(server: ValkeyServer) -> None:
    """It fits into the limit, and will again; without max_tokens it reserves no more than the share."""
    async with two(server, timeout_s=0.3, tpm=1000) as (rig, _):
        server.kill()
        await rig.chat(max_tokens=1)
        answer = await rig.chat(max_tokens=700)
        assert (answer.status, answer.headers["retry-after"]) == (429, "5")
        assert "x-should-retry" not in answer.headers
        never = await rig.chat(max_tokens=1001)
        assert (never.status, never.headers["x-should-retry"]) == (429, "false")
        await rig.idle()
        server.start()
