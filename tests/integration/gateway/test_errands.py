"""Requests that generate nothing: what they cost others, and what they cost their key."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from control_plane.contracts.errors import DropReason, InferDeckError, Unavailable
from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import Limits
from control_plane.gateway.prompt.lanes import Lanes
from control_plane.gateway.prompt.model_prompt import ModelPrompt
from control_plane.gateway.schema import json_text
from tests.integration.gateway.rig import KEY, MODEL, Answer, Rig, eventually, request
from tests.integration.gateway.store import OTHERS_KEY, keeping
from tests.unit.gateway.fakes import until

PREFIX = "x-ratelimit-"
HELLO = [{"type": "message", "role": "user", "content": "hi"}]
CONVERSATIONS = "/v1/conversations"


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Rig]:
    async with keeping("", tmp_path) as rig:
        yield rig
        await rig.idle()


def told(answer: Answer) -> dict[str, str]:
    return {name.removeprefix(PREFIX): value for name, value in answer.headers.items() if name.startswith(PREFIX)}


async def allow(rig: Rig, **limits: int) -> None:
    """Return when the gateway knows what the key may do from now on."""
    rig.keys.granted[KEY] = Grant("key-1", "acme", limits=Limits(**limits))

    async def read() -> bool:
        return bool(told(await rig.post(CONVERSATIONS, b"[]")))

    await eventually(read)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CONVERSATIONS, {"items": [HELLO[0] | {"content": "x" * 20_000}]}),
        (f"{CONVERSATIONS}/ID", {"metadata": {"a": "x" * 20_000}}),
        (f"{CONVERSATIONS}/ID/items", {"items": [HELLO[0] | {"content": "x" * 20_000}]}),
        ("/tokenize", {"model": MODEL, "prompt": "x" * 20_000}),
        ("/detokenize", {"model": MODEL, "tokens": [5] * 20_000}),
    ],
)
async def test_a_large_body_is_not_read_on_the_loop(
    sqlite: Rig, monkeypatch: pytest.MonkeyPatch, path: str, body: Any
) -> None:
    made = (await sqlite.post(CONVERSATIONS, {})).json["id"]
    threads = []
    check = json_text._check_size

    def look(data: bytes) -> None:
        threads.append(threading.current_thread())
        check(data)

    monkeypatch.setattr(json_text, "_check_size", look)
    answer = await sqlite.post(path.replace("ID", made), body)
    # Too long for metadata and for the model, which is found out later.
    assert answer.status == (400 if "metadata" in body or "prompt" in body else 200), answer.body
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def test_tokens_that_calls_of_tools_hold_are_not_counted_on_the_loop(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def chat(self: ModelPrompt, *_: Any) -> list[int]:
        threads.append(threading.current_thread())
        return []

    monkeypatch.setattr(ModelPrompt, "chat", chat)
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": "' + "x" * 5000 + '"}'}}
    messages = [{"role": "assistant", "content": "", "tool_calls": [call]}]
    assert (await rig.post("/tokenize", {"model": MODEL, "messages": messages})).status == 200
    assert threads[0] is not threading.current_thread()


async def test_who_leaves_takes_the_work_along(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    done, go_on, jobs = [], threading.Event(), list[Any]()
    submit = Lanes.submit

    def counting(self: Lanes, job: Any, characters: int) -> None:
        submit(self, job, characters)
        jobs.append(job)

    def completion(self: ModelPrompt, prompt: str) -> list[int]:
        done.append(prompt[0])
        assert go_on.wait(20.0)
        return []

    def body(letter: str) -> dict[str, Any]:
        return {"model": MODEL, "prompt": letter * 1000}

    await rig.chat()
    monkeypatch.setattr(ModelPrompt, "completion", completion)
    monkeypatch.setattr(Lanes, "submit", counting)
    try:
        first = asyncio.create_task(rig.post("/tokenize", body("a")))
        await until(lambda: done == ["a"])
        leaves = await rig.connect()
        leaves.send(request("/tokenize", body("b")))
        third = asyncio.create_task(rig.post("/tokenize", body("c")))
        await until(lambda: len(jobs) == 3)
        leaves.reset()

        async def left() -> bool:
            return b'responses_total{route="tokenize",status="499"} 1.0' in (await rig.get("/metrics")).body

        await eventually(left)
    finally:
        go_on.set()
    assert ((await first).status, (await third).status) == (200, 200)
    assert done == ["a", "c"]


async def test_each_is_a_request_of_its_key(sqlite: Rig) -> None:
    """L01, L02: all answers tell how the limits stand; over them it is 429, as for calls."""
    await allow(sqlite, rpm=10, tpm=1000)
    made = await sqlite.post(CONVERSATIONS, {"items": HELLO})
    name = made.json["id"]
    item = (await sqlite.get(f"{CONVERSATIONS}/{name}/items")).json["data"][0]["id"]
    answers = [
        await sqlite.get(CONVERSATIONS),
        await sqlite.get(f"{CONVERSATIONS}/{name}/items/{item}"),
        await sqlite.post(f"{CONVERSATIONS}/{name}", {"metadata": {}}),
        await sqlite.post(f"{CONVERSATIONS}/{name}/items", {"items": HELLO}),
        await sqlite.post("/tokenize", {"model": MODEL, "prompt": "hi"}),
        await sqlite.post("/detokenize", {"model": MODEL, "tokens": [5]}),
        await sqlite.post("/v1/responses/nope/cancel", {}),
        await sqlite.get("/v1/responses/nope/input_items"),
        await sqlite.post("/tokenize", {"model": MODEL}),
        await sqlite.get("/v1/responses/nope"),
        await sqlite.post("/tokenize", {"model": MODEL, "prompt": "hi"}),
    ]
    assert [answer.status for answer in answers] == [200] * 6 + [404, 404, 400, 429, 429]
    left = [told(answer)["remaining-requests"] for answer in [made, *answers]]
    assert left == ["9", "7", "6", "5", "4", "3", "2", "1", "0", "0", "0", "0"]
    assert all(told(answer)["remaining-tokens"] == "1000" for answer in answers)
    assert answers[-1].error["type"] == "requests"
    assert 50 <= int(answers[-1].headers["retry-after"]) <= 60


async def test_tokens_that_are_used_up_do_not_matter(sqlite: Rig) -> None:
    prompt = (await sqlite.chat(max_tokens=1)).json["usage"]["prompt_tokens"]
    sqlite.keys.granted[KEY] = Grant("key-1", "acme", limits=Limits(tpm=prompt + 2), default_max_tokens=1)
    statuses = []

    async def over() -> bool:
        # What was not asked for is charged in the end: more than there is.
        statuses.append((await sqlite.chat()).status)
        return statuses[-1] == 429

    await eventually(over)
    assert set(statuses) == {200, 429}
    answer = await sqlite.get(CONVERSATIONS)
    assert (answer.status, told(answer)["remaining-tokens"]) == (200, "0")


async def test_each_is_one_of_the_calls_at_one_time(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, running = threading.Event(), threading.Event()

    def completion(self: ModelPrompt, prompt: str) -> list[int]:
        running.set()
        assert go_on.wait(20.0)
        return []

    await rig.chat()
    monkeypatch.setattr(ModelPrompt, "completion", completion)
    rig.keys.granted[KEY] = Grant("key-1", "acme", limits=Limits(rpm=100, concurrency=1))

    async def known() -> bool:
        return bool(told(await rig.post("/tokenize", b"[]")))

    await eventually(known)
    try:
        first = asyncio.create_task(rig.post("/tokenize", {"model": MODEL, "prompt": "x" * 1000}))
        await until(running.is_set)
        refused = await rig.post("/tokenize", {"model": MODEL, "prompt": "hi"})
        assert (refused.status, refused.error["code"]) == (429, "rate_limit_exceeded")
    finally:
        go_on.set()
    assert (await first).status == 200
    assert (await rig.post("/tokenize", {"model": MODEL, "prompt": "hi"})).status == 200


async def test_one_tenant_leaves_room_in_the_store_for_others(sqlite: Rig) -> None:
    history = sqlite.gateway._history
    assert history is not None
    go_on, outcomes = threading.Event(), list[Any]()
    try:
        for _ in range(600):
            history.ask("many", lambda: go_on.wait(20.0), outcomes.append)
        refused = [outcome for outcome in outcomes if isinstance(outcome, InferDeckError)]
        assert len(refused) == 600 - 256
        assert isinstance(refused[0], Unavailable)
        assert refused[0].reason == DropReason.OVERLOADED
        other = asyncio.create_task(sqlite.http.get(CONVERSATIONS, headers={"authorization": f"Bearer {OTHERS_KEY}"}))
        await until(lambda: history._waiting["others"] == 1)
    finally:
        go_on.set()
    assert (await other).status_code == 200
    await until(lambda: len(outcomes) == 600)
    assert not history._waiting
