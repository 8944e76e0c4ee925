"""A client that is not the official one: LangChain's, which sends and expects more than its callers write."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import SecretStr

from control_plane.contracts.errors import DropReason, Unavailable, WorkerLost
from control_plane.contracts.worker import Delta
from tests.integration.gateway.rig import KEY, MODEL, Rig, say
from tests.unit.gateway.fakes import Submitted
from tests.unit.gateway.test_model_prompt import WITH_TOOLS
from tests.unit.gateway.tokenizers import bundle


def chat(rig: Rig, **fields: Any) -> ChatOpenAI:
    secret = SecretStr(fields.pop("key", KEY))
    return ChatOpenAI(base_url=f"{rig.gateway.url}/v1", api_key=secret, max_retries=0, **{"model": MODEL} | fields)


async def test_a_plain_call(rig: Rig) -> None:
    model = chat(rig, max_tokens=3, temperature=0.5, stop=["END"], seed=7, n=1)
    answer = await model.ainvoke([SystemMessage("be brief"), HumanMessage([{"type": "text", "text": "hi"}])])
    assert answer.content == " word word word"
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_tokens"] == 3
    assert answer.response_metadata["finish_reason"] == "length"
    sampling = rig.router.submitted[0].call.sampling
    assert (sampling.max_tokens, sampling.temperature, sampling.stop, sampling.seed) == (3, 0.5, ("END",), 7)


async def test_a_stream_with_its_usage(rig: Rig) -> None:
    chunks = [chunk async for chunk in chat(rig, max_tokens=3, stream_usage=True).astream("hi")]
    assert "".join(str(chunk.content) for chunk in chunks) == " word word word"
    (usage,) = [chunk.usage_metadata for chunk in chunks if chunk.usage_metadata]
    assert usage["output_tokens"] == 3


async def test_a_conversation_goes_on(rig: Rig) -> None:
    model = chat(rig)
    first = await model.ainvoke("hi")
    again = await model.ainvoke([HumanMessage("hi"), first, HumanMessage("more")])
    assert again.content == first.content


async def test_completions(rig: Rig) -> None:
    model = OpenAI(base_url=f"{rig.gateway.url}/v1", api_key=SecretStr(KEY), model=MODEL, max_tokens=2, max_retries=0)
    assert await model.ainvoke("hi") == " word word"
    assert "".join([piece async for piece in model.astream("hi")]) == " word word"


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return "rain"


async def test_tools_and_their_results(rig: Rig) -> None:
    rig.router.bundles["tools"] = bundle("byte_level_with_markup", template=WITH_TOOLS)
    model = chat(rig, model="tools").bind_tools([weather])
    rig.router.play = lambda submitted: say(submitted, ['{"name": "weather"}'])
    answer = await model.ainvoke("How is Oslo?")
    # What the model wrote is text.
    assert answer.content == '{"name": "weather"}'
    call = {"name": "weather", "args": {"city": "Oslo"}, "id": "call_1", "type": "tool_call"}
    turns = [HumanMessage("?"), AIMessage("", tool_calls=[call]), ToolMessage("rain", tool_call_id="call_1")]
    assert (await model.ainvoke(turns)).content
    with pytest.raises(openai.BadRequestError) as refused:
        await chat(rig).bind_tools([weather]).ainvoke("How is Oslo?")
    assert refused.value.param == "tools"


async def test_errors(rig: Rig) -> None:
    with pytest.raises(openai.AuthenticationError):
        await chat(rig, key="wrong").ainvoke("hi")
    with pytest.raises(openai.NotFoundError) as missing:
        await chat(rig, model="nope").ainvoke("hi")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as bad:
        await chat(rig, temperature=9).ainvoke("hi")
    assert bad.value.param == "temperature"
    # It knows this code by its name, and has an error of its own for it.
    with pytest.raises(openai.BadRequestError) as long:
        await chat(rig).ainvoke("word " * 2000)
    assert long.value.code == "context_length_exceeded"
    rig.router.refusal = Unavailable("full", reason=DropReason.OVERLOADED)
    with pytest.raises(openai.InternalServerError) as full:
        await chat(rig).ainvoke("hi")
    assert full.value.code == "overloaded"


async def test_an_error_in_mid_stream(rig: Rig) -> None:
    def die(submitted: Submitted) -> None:
        submitted.sink.delta(Delta(1, [5], "x"))
        submitted.sink.failed(WorkerLost("gone"))

    rig.router.play = die
    text = ""

    async def read() -> None:
        nonlocal text
        async for chunk in chat(rig).astream("hi"):
            text += str(chunk.content)

    with pytest.raises(openai.APIError, match="gone"):
        await read()
    assert text == "x"
