"""The official client, which most callers are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import openai
import pytest

from control_plane.contracts.errors import DropReason, RequestCancelled, Unavailable, WorkerLost
from control_plane.contracts.worker import Delta
from tests.integration.gateway.rig import KEY, MODEL, Rig, echo_words, say
from tests.unit.gateway.fakes import Submitted

HELLO: Any = [{"role": "user", "content": "hi"}]


@pytest.fixture
async def client(rig: Rig) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{rig.gateway.url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


async def test_a_plain_call(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=3)
    assert answer.choices[0].message.content == " word word word"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3
    assert answer._request_id


async def test_a_stream(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model=MODEL,
        messages=HELLO,
        max_tokens=3,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == " word word word"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None


async def test_the_stream_helper(rig: Rig, client: openai.AsyncOpenAI) -> None:
    rig.router.play = lambda submitted: say(submitted, [" word", " word"])
    async with client.chat.completions.stream(model=MODEL, messages=HELLO, max_tokens=2) as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_completion()
    assert "content.delta" in kinds
    assert final.choices[0].message.content == " word word"


async def test_an_answer_can_be_sent_back_as_it_came(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model=MODEL, messages=HELLO)
    again = [*HELLO, answer.choices[0].message, *HELLO]
    assert (await client.chat.completions.create(model=MODEL, messages=again)).choices


async def test_completions_and_models(client: openai.AsyncOpenAI) -> None:
    answer = await client.completions.create(model=MODEL, prompt="hi", max_tokens=2, logprobs=None)
    assert answer.choices[0].text == " word word"
    stream = await client.completions.create(model=MODEL, prompt="hi", max_tokens=2, stream=True)
    assert "".join([chunk.choices[0].text async for chunk in stream]) == " word word"
    assert [model.id async for model in client.models.list()] == [MODEL]
    assert (await client.models.retrieve(MODEL)).owned_by == "inferdeck"


async def test_parameters_that_only_this_server_has(rig: Rig, client: openai.AsyncOpenAI) -> None:
    extra = {"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.2, "min_tokens": 1, "ignore_eos": True}
    await client.chat.completions.create(model=MODEL, messages=HELLO, extra_body=extra)
    sampling = rig.router.submitted[0].call.sampling
    assert (sampling.top_k, sampling.min_p, sampling.ignore_eos) == (5, 0.1, True)


async def test_errors_are_the_clients_own(rig: Rig, client: openai.AsyncOpenAI) -> None:
    create = client.chat.completions.create
    with pytest.raises(openai.NotFoundError) as missing:
        await create(model="nope", messages=HELLO)
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as bad:
        await create(model=MODEL, messages=HELLO, temperature=9)
    assert (bad.value.type, bad.value.param) == ("invalid_request_error", "temperature")
    with pytest.raises(openai.AuthenticationError) as wrong:
        await client.with_options(api_key="wrong").chat.completions.create(model=MODEL, messages=HELLO)
    assert wrong.value.code == "invalid_api_key"
    rig.router.refusal = Unavailable("full", reason=DropReason.OVERLOADED)
    with pytest.raises(openai.InternalServerError) as full:
        await create(model=MODEL, messages=HELLO)
    assert (full.value.status_code, full.value.code) == (503, "overloaded")


async def test_an_error_in_mid_stream_is_raised(rig: Rig, client: openai.AsyncOpenAI) -> None:
    """S06: the official client raises."""

    def die(submitted: Submitted) -> None:
        for _ in range(3):
            submitted.sink.delta(Delta(1, [5], "x"))
        submitted.sink.failed(WorkerLost("The worker was lost after 3 tokens."))

    rig.router.play = die
    stream = await client.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
    text = ""

    async def read() -> None:
        nonlocal text
        async for chunk in stream:
            text += chunk.choices[0].delta.content or ""

    with pytest.raises(openai.APIError) as lost:
        await read()
    assert text == "xxx"
    assert lost.value.message == "The worker was lost after 3 tokens."
    assert lost.value.code == "worker_lost"


async def test_the_client_tries_again_when_that_can_help_and_not_otherwise(rig: Rig) -> None:
    """C04: a cancelled call is not tried again."""
    delays: list[str] = []

    async def note(response: httpx.Response) -> None:
        delays.append(response.headers.get("retry-after", ""))

    def once_full(submitted: Submitted) -> None:
        if len(rig.router.submitted) == 1:
            submitted.sink.failed(Unavailable("full", reason=DropReason.OVERLOADED, retry_after_s=0.1))
        else:
            echo_words(submitted)

    async with (
        httpx.AsyncClient(event_hooks={"response": [note]}, verify=False) as http,
        openai.AsyncOpenAI(base_url=f"{rig.gateway.url}/v1", api_key=KEY, max_retries=1, http_client=http) as client,
    ):
        rig.router.play = once_full
        assert (await client.chat.completions.create(model=MODEL, messages=HELLO)).choices
        assert delays == ["1", ""]
        rig.router.play = lambda submitted: submitted.sink.failed(RequestCancelled("by an operator"))
        before = len(rig.router.submitted)
        with pytest.raises(openai.APIStatusError) as cancelled:
            await client.chat.completions.create(model=MODEL, messages=HELLO)
        assert cancelled.value.status_code == 499
        assert len(rig.router.submitted) == before + 1


async def test_a_client_that_gives_up_cancels(rig: Rig, client: openai.AsyncOpenAI) -> None:
    rig.router.play = None
    create = client.with_options(timeout=0.3).chat.completions.create
    with pytest.raises(openai.APITimeoutError):
        await create(model=MODEL, messages=HELLO)
    submitted = await rig.call()
    await rig.idle()
    assert submitted.handle.cancelled == ["client_disconnected"]


async def test_a_stream_that_is_left_cancels(rig: Rig, client: openai.AsyncOpenAI) -> None:
    rig.router.play = None
    opening = asyncio.create_task(client.chat.completions.create(model=MODEL, messages=HELLO, stream=True))
    submitted = await rig.call()
    submitted.sink.delta(Delta(1, [5], "x"))
    stream = await opening
    assert (await anext(aiter(stream))).choices
    await stream.close()
    await rig.idle()
    assert submitted.handle.cancelled == ["client_disconnected"]


async def test_the_synchronous_client(rig: Rig) -> None:
    def use() -> Iterator[str]:
        with openai.OpenAI(base_url=f"{rig.gateway.url}/v1", api_key=KEY, max_retries=0) as client:
            answer = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=2)
            yield answer.choices[0].message.content
            stream = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=2, stream=True)
            yield "".join(chunk.choices[0].delta.content or "" for chunk in stream)

    assert await asyncio.to_thread(lambda: list(use())) == [" word word", " word word"]


async def test_a_log_probability_and_a_usage_with_cached_tokens(rig: Rig, client: openai.AsyncOpenAI) -> None:
    rig.router.play = lambda submitted: say(submitted, ["a"], cached=4)
    answer = await client.chat.completions.create(model=MODEL, messages=HELLO)
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 4
