"""Limits as callers meet them, in front of one gateway."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from control_plane.contracts.errors import WorkerLost
from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import Limits
from control_plane.contracts.worker import Delta, Done, Finish, FinishReason
from tests.integration.gateway.rig import CHAT, KEY, MODEL, Answer, Rig, chat_body, echo_words, eventually, request, say
from tests.unit.gateway.fakes import Submitted, until

HELLO: Any = [{"role": "user", "content": "hi"}]
DURATION = re.compile(r"(\d+m)?\d+(\.\d+)?s|\d+ms")
PREFIX = "x-ratelimit-"

either = pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])


def allow(rig: Rig, *, default_max_tokens: int = 1024, tenant: Limits | None = None, **limits: int) -> None:
    """From the next look at the keys on."""
    rig.keys.granted[KEY] = Grant(
        "key-1",
        "acme",
        limits=Limits(**limits),
        tenant_limits=tenant or Limits(),
        default_max_tokens=default_max_tokens,
    )


@pytest.fixture
async def client(rig: Rig) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{rig.gateway.url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture(autouse=True)
async def _nothing_stays_reserved(rig: Rig) -> AsyncIterator[None]:
    """IDLE: token reservations 0."""
    yield
    await rig.idle()


def told(answer: Answer) -> dict[str, str]:
    return {name.removeprefix(PREFIX): value for name, value in answer.headers.items() if name.startswith(PREFIX)}


async def new_grant(rig: Rig) -> None:
    """Return when the gateway has read what a key that it knew already may do now."""

    async def read() -> bool:
        return bool(told(await rig.post(CHAT, b"[]")))

    await eventually(read)


async def used(rig: Rig) -> int:
    """Tokens that the key has used, as a refused call is told."""
    answer = await rig.post(CHAT, b"[]")
    assert answer.status == 400
    left = told(answer)
    return int(left["limit-tokens"]) - int(left["remaining-tokens"])


async def prompt_tokens(rig: Rig) -> int:
    answer = await rig.chat(max_tokens=1)
    return int(answer.json["usage"]["prompt_tokens"])


async def test_every_answer_to_a_key_with_limits_tells_how_they_stand(rig: Rig) -> None:
    """L01: 10 sequential, one streamed, one 400, one 429; an unlimited key is told nothing."""
    assert told(await rig.chat(max_tokens=1)) == {}
    allow(rig, rpm=11, tpm=100_000)
    await new_grant(rig)
    answers = [await rig.chat(max_tokens=8) for _ in range(10)]
    answers.append(await rig.chat(max_tokens=8, stream=True))
    answers.append(await rig.chat(temperature=9))
    answers.append(await rig.post(CHAT, b"{", **{"content-type": "text/plain"}))
    answers.append(await rig.chat(max_tokens=8))
    assert [answer.status for answer in answers] == [200] * 11 + [400, 415, 429]
    remaining = []
    for answer in answers:
        found = told(answer)
        assert found.keys() == {
            f"{fact}-{what}" for fact in ("limit", "remaining", "reset") for what in ("requests", "tokens")
        }
        assert (found["limit-requests"], found["limit-tokens"]) == ("11", "100000")
        assert found["remaining-tokens"].isdigit()
        assert DURATION.fullmatch(found["reset-requests"])
        assert DURATION.fullmatch(found["reset-tokens"])
        remaining.append(int(found["remaining-requests"]))
    assert remaining == [*range(10, -1, -1), 0, 0, 0]


@pytest.fixture
async def limited(rig: Rig) -> Rig:
    """A key of which the gateway has not read yet what it may do."""
    allow(rig, rpm=1000, tpm=1000)
    return rig


async def test_requests_over_their_limit(rig: Rig, client: openai.AsyncOpenAI) -> None:
    """L02: ERR(429,rate_limit_exceeded,null), type requests, Retry-After in whole seconds."""
    allow(rig, rpm=2)
    create = client.chat.completions.create
    for _ in range(2):
        await create(model=MODEL, messages=HELLO, max_tokens=1)
    with pytest.raises(openai.RateLimitError) as refused:
        await create(model=MODEL, messages=HELLO, max_tokens=1)
    error = refused.value
    assert (error.type, error.code, error.param) == ("requests", "rate_limit_exceeded", None)
    assert "requests per minute of this API key: limit 2, used 2, asked 1" in error.message
    assert 50 <= int(error.response.headers["retry-after"]) <= 60
    assert "x-should-retry" not in error.response.headers
    assert len(rig.router.submitted) == 2
    metrics = (await rig.get("/metrics")).body.decode()
    assert 'rejections_total{reason="rate_limit_exceeded"} 1.0' in metrics


async def test_tokens_over_their_limit(limited: Rig, client: openai.AsyncOpenAI) -> None:
    """L02: type tokens; what can never fit says that a retry cannot help."""
    limited.router.play = None
    create = client.chat.completions.create
    running = asyncio.create_task(create(model=MODEL, messages=HELLO, max_tokens=400))
    first = await limited.call()
    before = await used(limited)
    with pytest.raises(openai.RateLimitError) as refused:
        await create(model=MODEL, messages=HELLO, max_tokens=400, n=2)
    error = refused.value
    assert (error.type, error.code, error.param) == ("tokens", "rate_limit_exceeded", None)
    # Before the prompt is read, one token of it and the answers' are known to be needed.
    assert f"limit 1000, used {before}, asked 801" in error.message
    assert 1 <= int(error.response.headers["retry-after"]) <= 60
    assert "max_tokens" not in error.message
    with pytest.raises(openai.RateLimitError) as never:
        await create(model=MODEL, messages=HELLO, max_tokens=400, n=3)
    assert never.value.response.headers["x-should-retry"] == "false"
    assert never.value.response.headers["retry-after"] == "60"
    assert "tokens per minute of this API key: limit 1000" in never.value.message
    assert "lower max_tokens or n" in never.value.message
    assert "never" in never.value.message
    say(first, ["a"])
    await running
    assert await used(limited) == before - 399
    assert len(limited.router.submitted) == 1


async def test_simultaneous_calls_cannot_all_pass(rig: Rig) -> None:
    """L03: TPM 100 beside the prompt's, 5 simultaneous chats of 60: one admitted, four 429; the rest comes back."""
    prompt = await prompt_tokens(rig)
    allow(rig, tpm=prompt + 100)
    await new_grant(rig)
    rig.router.play = None
    calls = [asyncio.create_task(rig.chat(max_tokens=60)) for _ in range(5)]
    refused, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    await until(lambda: sum(call.done() for call in calls) == 4)
    say(rig.router.submitted[-1], ["a", "b"])
    statuses = sorted([(await call).status for call in calls])
    assert statuses == [200, 429, 429, 429, 429]
    assert await used(rig) == prompt + 2
    assert refused


@either
async def test_an_answer_is_charged_what_it_took(limited: Rig, stream: bool) -> None:
    """L04: prompt + generated, without include_usage; cached tokens count."""
    limited.router.play = lambda submitted: say(submitted, ["x"] * 40, cached=3)
    await limited.chat(max_tokens=100, stream=stream)
    prompt = len(limited.router.submitted[0].call.prompt_token_ids)
    assert await used(limited) == prompt + 40
    await limited.chat(max_tokens=100, stream=stream, n=3)
    assert await used(limited) == 2 * prompt + 40 + 120


async def test_a_stream_that_is_left_is_charged_what_came(limited: Rig) -> None:
    """L04: cancel after 10 tokens."""
    limited.router.play = None
    client = await limited.connect()
    client.send(request(CHAT, chat_body(max_tokens=100, stream=True)))
    submitted = await limited.call()
    for _ in range(10):
        submitted.sink.delta(Delta(1, [5], "x"))
    await client.reader.readuntil(b"x")
    client.reset()
    await limited.idle()
    assert await used(limited) == len(submitted.call.prompt_token_ids) + 10


@pytest.mark.parametrize("generated", [25, None])
async def test_a_plain_call_that_is_left_is_charged_what_its_worker_says(limited: Rig, generated: int | None) -> None:
    """L04: nothing has come of it yet. While its worker says nothing, all that was reserved is charged."""
    limited.router.play = None
    client = await limited.connect()
    client.send(request(CHAT, chat_body(max_tokens=100)))
    submitted = await limited.call()
    client.reset()
    await until(lambda: submitted.handle.cancelled)
    prompt = len(submitted.call.prompt_token_ids)
    assert limited.gateway.stats().reserved_tokens == prompt + 100
    assert submitted.handle.used is not None
    if generated is not None:
        submitted.handle.used(generated)
    await limited.idle()
    assert await used(limited) == prompt + (100 if generated is None else generated)
    submitted.handle.used(25)
    assert await used(limited) == prompt + 25


@either
async def test_a_worker_that_dies(limited: Rig, stream: bool) -> None:
    """S06: charged 3 output tokens; L04: where nothing was delivered, nothing is charged."""

    def die(submitted: Submitted) -> None:
        if stream:
            for _ in range(3):
                submitted.sink.delta(Delta(1, [5], "x"))
        submitted.sink.failed(WorkerLost("The worker was lost."))

    limited.router.play = die
    await limited.chat(max_tokens=100, stream=stream)
    prompt = len(limited.router.submitted[0].call.prompt_token_ids)
    assert await used(limited) == (prompt + 3 if stream else 0)


@either
async def test_a_call_that_leaves_the_queue_gets_everything_back(limited: Rig, stream: bool) -> None:
    """C01: B's reservation is fully refunded."""
    limited.router.play = None
    client = await limited.connect()
    client.send(request(CHAT, chat_body(max_tokens=100, stream=stream)))
    submitted = await limited.call()
    submitted.handle.worker_id = ""
    assert await used(limited) > 100
    client.reset()
    await limited.idle()
    assert await used(limited) == 0


async def test_without_max_tokens(rig: Rig) -> None:
    """L03, PIN: the tier's default is reserved, never more than the whole limit; the answer is not cut."""
    allow(rig, tpm=200, default_max_tokens=50)
    rig.router.play = None
    calls = [asyncio.create_task(rig.chat()) for _ in range(2)]
    first, second = (await rig.call(2), rig.router.submitted[0])
    prompt = len(first.call.prompt_token_ids)
    assert rig.gateway.stats().reserved_tokens == 2 * (prompt + 50)
    assert first.call.sampling.max_tokens == 512 - prompt
    say(first, ["x"] * 180)
    say(second, ["x"])
    await asyncio.gather(*calls)
    refused = await rig.chat()
    assert refused.error["type"] == "tokens"
    assert f"used {2 * prompt + 181}" in refused.error["message"]
    # Used up, it is refused before its prompt is read, when nobody knows what it would have reserved.
    assert (
        "max_tokens is absent, so tokens are reserved for the answer: the tier's default of 50"
        in refused.error["message"]
    )
    assert told(refused)["remaining-tokens"] == "0"


async def test_a_call_without_max_tokens_is_told_what_it_reserved_for_that(rig: Rig) -> None:
    allow(rig, tpm=100, default_max_tokens=80)
    await rig.chat(max_tokens=8)
    prompt = len(rig.router.submitted[0].call.prompt_token_ids)
    refused = await rig.chat()
    assert refused.status == 429
    output = min(80, 100 - prompt)
    told = f"max_tokens is absent, so {output} tokens are reserved for the answer: the tier's default of 80 for each"
    assert told in refused.error["message"]
    assert (await rig.chat(max_tokens=8)).status == 200


async def test_a_default_over_the_whole_limit_is_cut_to_it(rig: Rig) -> None:
    allow(rig, tpm=100)
    answer = await rig.chat()
    assert answer.status == 200
    assert told(answer)["remaining-tokens"] == "0"
    assert (await rig.chat("word " * 60)).headers["x-should-retry"] == "false"


async def test_an_exhausted_key_is_told_before_its_prompt_is_read(rig: Rig) -> None:
    """429 before the prompt is tokenised."""
    allow(rig, tpm=60)
    rig.router.play = lambda submitted: say(submitted, ["x"] * 60)
    await rig.chat(max_tokens=None)
    before = (await rig.get("/metrics")).body.decode()
    answer = await rig.chat(max_tokens=1)
    assert (answer.status, answer.error["type"]) == (429, "tokens")
    after = (await rig.get("/metrics")).body.decode()
    count = re.compile(r"tokenise_seconds_count\S* (\S+)")
    assert count.findall(before) == count.findall(after) == ["1.0"]


async def test_calls_at_one_time(rig: Rig) -> None:
    allow(rig, concurrency=1)
    rig.router.play = None
    running = asyncio.create_task(rig.chat())
    submitted = await rig.call()
    refused = await rig.chat()
    assert (refused.status, refused.error["type"], refused.headers["retry-after"]) == (429, "requests", "1")
    say(submitted, ["x"])
    assert (await running).status == 200
    rig.router.play = echo_words
    assert (await rig.chat()).status == 200


async def test_the_limits_of_a_tenant_hold_for_all_its_keys(rig: Rig) -> None:
    allow(rig, rpm=5, tenant=Limits(rpm=2))
    rig.keys.granted["sk-inferdeck-other"] = Grant("key-2", "acme", tenant_limits=Limits(rpm=2))
    assert (await rig.chat(max_tokens=1)).status == 200
    other = {"authorization": "Bearer sk-inferdeck-other"}
    answer = await rig.post(CHAT, chat_body(max_tokens=1), **other)
    assert told(answer)["remaining-requests"] == "0"
    refused = await rig.chat(max_tokens=1)
    assert (refused.status, told(refused)["limit-requests"]) == (429, "2")
    assert "this API key's tenant" in refused.error["message"]


async def test_what_is_reserved_is_settled_or_refunded(limited: Rig) -> None:
    limited.router.play = lambda submitted: say(submitted, ["x"] * 5)
    await limited.chat(max_tokens=100)
    prompt = len(limited.router.submitted[0].call.prompt_token_ids)
    text = (await limited.get("/metrics")).body.decode()
    found = dict(re.findall(r"inferdeck_gateway_limit_tokens_(\w+) (\S+)", text))
    assert found["reserved_total"] == f"{prompt + 100}.0"
    assert found["settled_total"] == f"{prompt + 5}.0"
    assert found["refunded_total"] == "95.0"
    assert found["held"] == "0.0"


async def test_an_echo_without_an_answer_is_charged_its_prompt(limited: Rig) -> None:
    """A05: echo with max_tokens 0."""
    answer = await limited.complete("hi there", echo=True, max_tokens=0)
    assert answer.status == 200
    assert await used(limited) == answer.json["usage"]["prompt_tokens"]


async def test_an_answer_of_nothing_is_still_a_request(limited: Rig) -> None:
    def nothing(submitted: Submitted) -> None:
        prompt = len(submitted.call.prompt_token_ids)
        submitted.sink.delta(Delta(1, [], "", finish=Finish(FinishReason.STOP, 1), done=Done(prompt, 0, 1)))

    limited.router.play = nothing
    await limited.chat(max_tokens=9)
    assert await used(limited) == len(limited.router.submitted[0].call.prompt_token_ids) + 1
