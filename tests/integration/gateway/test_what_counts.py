"""The table of the reference, "what happened | charged | counts as a request", row by row."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from control_plane.contracts.errors import (
    DropReason,
    InferDeckError,
    InvalidRequest,
    Throttled,
    Unavailable,
    WorkerLost,
)
from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import Limits
from control_plane.contracts.worker import Delta
from tests.integration.gateway.rig import CHAT, KEY, MODEL, Answer, Rig, chat_body, echo_words, eventually, request, say
from tests.integration.gateway.store import keeping
from tests.unit.gateway.fakes import Submitted

TPM = 100_000
RESPONSES = "/v1/responses"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CALLED = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]

Row = Callable[[Rig], Awaitable[int]]
"""Does what the row says, and returns what it must be charged."""


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A key with limits that keeps conversations, of which the gateway knows."""
    async with keeping("", tmp_path) as rig:
        limits = Limits(rpm=1000, tpm=TPM)
        rig.keys.granted[KEY] = Grant("key-1", "acme", limits=limits, models=(MODEL, "unknown"), default_max_tokens=50)

        async def known() -> bool:
            return "x-ratelimit-limit-tokens" in (await rig.post(CHAT, b"[]")).headers

        await eventually(known)
        yield rig
        await rig.idle()


async def counted(rig: Rig) -> tuple[int, int]:
    """Requests and tokens, as a refused body is told."""
    headers = (await rig.post(CHAT, b"[]")).headers
    return 1000 - int(headers["x-ratelimit-remaining-requests"]), TPM - int(headers["x-ratelimit-remaining-tokens"])


def prompt_of(rig: Rig) -> int:
    return len(rig.router.submitted[-1].call.prompt_token_ids)


# rows


async def answered(rig: Rig, *, choices: int = 1, **fields: Any) -> int:
    assert (await rig.chat(max_tokens=20, n=choices, **fields)).status == 200
    return prompt_of(rig) + 8 * choices


async def without_a_bound(rig: Rig) -> int:
    """50 are reserved, and what is taken beyond is charged too."""
    rig.router.play = lambda submitted: say(submitted, ["x"] * 70)
    assert (await rig.chat()).status == 200
    return prompt_of(rig) + 70


async def left(rig: Rig, *, stream: bool, waiting: bool = False) -> int:
    """A stream after three tokens; a plain call, of which its worker says that there were 25."""
    before = len(rig.router.submitted)
    rig.router.play = None
    client = await rig.connect()
    client.send(request(CHAT, chat_body(max_tokens=100, stream=stream)))
    submitted = await rig.call(before + 1)
    if waiting:
        submitted.handle.worker_id = ""
    elif stream:
        for _ in range(3):
            submitted.sink.delta(Delta(1, [5], "x"))
        await client.reader.readuntil(b"x")
    client.reset()

    async def gone() -> bool:
        return bool(submitted.handle.cancelled)

    await eventually(gone)
    if submitted.handle.used is not None:
        submitted.handle.used(25)
    await rig.idle()
    return 0 if waiting else prompt_of(rig) + (3 if stream else 25)


async def failed(rig: Rig, status: int, error: InferDeckError, *, said: int = 0) -> int:
    """At its worker."""

    def fail(submitted: Submitted) -> None:
        for _ in range(said):
            submitted.sink.delta(Delta(1, [5], "x"))
        submitted.sink.failed(error)

    rig.router.play = fail
    assert (await rig.chat(max_tokens=100, stream=bool(said))).status == status
    return prompt_of(rig) + said if said else 0


async def turned_away(rig: Rig, status: int, error: InferDeckError) -> int:
    """By the router."""
    rig.router.refusal = error
    try:
        assert (await rig.chat(max_tokens=1)).status == status
    finally:
        rig.router.refusal = None
    return 0


async def chat(rig: Rig, status: int, content: str = "hi", **fields: Any) -> int:
    answer = await rig.chat(content, **fields)
    assert answer.status == status, answer.body
    return 0


async def post(rig: Rig, status: int, path: str, body: Any, **headers: str) -> int:
    return _checked(await rig.post(path, body, **headers), status)


async def get(rig: Rig, status: int, path: str) -> int:
    return _checked(await rig.get(path), status)


def _checked(answer: Answer, status: int) -> int:
    assert answer.status == status, answer.body
    return 0


async def echoed(rig: Rig) -> int:
    answer = await rig.complete("hi there", echo=True, max_tokens=0)
    assert answer.status == 200
    return int(answer.json["usage"]["prompt_tokens"])


def message(**fields: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": "hi"} | fields]


SHED = Throttled("shed", reason=DropReason.TIER_THROTTLED)
FULL = Unavailable("full", reason=DropReason.OVERLOADED)
LOST = WorkerLost("The worker was lost.")
NO_GRAMMAR = InvalidRequest("no grammar", param="response_format")

A_REQUEST: dict[str, Row] = {
    "an answer, whole": answered,
    "an answer, streamed": partial(answered, stream=True),
    "an answer of three choices": partial(answered, choices=3),
    "the client left a stream": partial(left, stream=True),
    "the client left a plain call": partial(left, stream=False),
    "the client left a stream that waited": partial(left, stream=True, waiting=True),
    "the client left a plain call that waited": partial(left, stream=False, waiting=True),
    "a worker died after the first token of a stream": partial(failed, status=200, error=LOST, said=3),
    "its length": partial(chat, status=400, content="word " * 900),
    "max_tokens over the context": partial(chat, status=400, max_tokens=512),
    "logit_bias": partial(chat, status=400, logit_bias={"999999": 1}),
    "stop_token_ids": partial(chat, status=400, stop_token_ids=[999_999]),
    "tools": partial(chat, status=400, tools=[TOOL]),
    "tool_calls": partial(chat, status=400, messages=message(role="assistant", tool_calls=CALLED)),
    "name": partial(chat, status=400, messages=message(name="ann")),
    "a grammar that cannot be made": partial(failed, status=400, error=NO_GRAMMAR),
    "a conversation that is not there": partial(chat, status=404, conversation="conv_nope"),
    "a response that is not there": partial(
        post, status=400, path=RESPONSES, body={"model": MODEL, "input": "hi", "previous_response_id": "resp_nope"}
    ),
    "max_tokens is absent": without_a_bound,
    "echo": echoed,
    "/tokenize": partial(post, status=200, path="/tokenize", body={"model": MODEL, "prompt": "hi"}),
    "/detokenize": partial(post, status=200, path="/detokenize", body={"model": MODEL, "tokens": [5]}),
    "/detokenize of no token": partial(
        post, status=400, path="/detokenize", body={"model": MODEL, "tokens": [999_999]}
    ),
    "/v1/conversations": partial(get, status=200, path="/v1/conversations"),
    "/v1/conversations/{id}, 404": partial(get, status=404, path="/v1/conversations/nope"),
    "/v1/responses/{id}, 404": partial(get, status=404, path="/v1/responses/nope"),
}

NO_REQUEST: dict[str, Row] = {
    "it failed before anything was delivered": partial(failed, status=502, error=LOST),
    "503 of a worker": partial(failed, status=503, error=FULL),
    "503": partial(turned_away, status=503, error=FULL),
    "429 of its tier": partial(turned_away, status=429, error=SHED),
    "429 of its tier, after waiting": partial(failed, status=429, error=SHED),
    "429 before its prompt is read": partial(chat, status=429, max_tokens=TPM),
    "its body": partial(post, status=400, path=CHAT, body=b"{"),
    "its media type": partial(post, status=415, path=CHAT, body=b"{}", **{"content-type": "text/plain"}),
    "a parameter": partial(chat, status=400, temperature=9),
    "a model that it may not call": partial(chat, status=403, model="other"),
    "a model that is not there": partial(chat, status=404, model="unknown"),
    "/tokenize, its body": partial(post, status=400, path="/tokenize", body={"model": MODEL}),
    "/v1/conversations, its query": partial(get, status=400, path="/v1/conversations?limit=x"),
    "/v1/models": partial(get, status=200, path="/v1/models"),
    "/metrics": partial(get, status=200, path="/metrics"),
}


@pytest.mark.parametrize(("rows", "counts"), [(A_REQUEST, 1), (NO_REQUEST, 0)], ids=["a request", "no request"])
async def test_every_row_of_the_table(rig: Rig, rows: dict[str, Row], counts: int) -> None:
    for name, row in rows.items():
        requests, tokens = await counted(rig)
        rig.router.play = echo_words
        charged = await row(rig)
        assert await counted(rig) == (requests + counts, tokens + charged), name
