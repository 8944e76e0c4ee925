"""Client, gateway, router and workers as they are: only the engine is scripted."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from control_plane.contracts.fleet import RequestPhase
from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import Limits
from control_plane.gateway.server import Gateway
from tests.integration.gateway.rig import (
    CHAT,
    KEY,
    Answer,
    Keys,
    RawClient,
    events,
    eventually,
    joined,
    request,
    serving,
)
from tests.integration.router.rig import MODEL, TOKENIZER, remote_rig, worker_load, worker_priorities, worker_requests
from tests.integration.router.rig import Rig as Routed
from tests.integration.router.rig import rig as routing
from tests.scripted_worker import scripted_server, scripted_worker
from tests.unit.gateway.fakes import until


@dataclass
class Platform:
    routed: Routed
    gateway: Gateway
    http: httpx.AsyncClient

    async def chat(self, script: dict[str, Any], **fields: Any) -> Answer:
        response = await self.http.post(
            CHAT, json=body(script, **fields), headers={"x-request-id": fields.get("user", "")}
        )
        return Answer(response.status_code, dict(response.headers), response.content)

    async def text(self, script: dict[str, Any], *, stream: bool, **fields: Any) -> tuple[str, str]:
        """The whole text of an answer and how it ended."""
        answer = await self.chat(script, stream=stream, **fields)
        assert answer.status == 200, answer.body
        if not stream:
            choice = answer.json["choices"][0]
            return choice["message"]["content"], choice["finish_reason"]
        found = events(answer.body)
        assert found[-1] == "[DONE]"
        return joined(answer.body), found[-2]["choices"][0]["finish_reason"]

    async def connect(self) -> RawClient:
        return RawClient(*await asyncio.open_connection("127.0.0.1", self.gateway.port, limit=2**22))

    async def idle(self, *addresses: str) -> None:
        """Everything is back to nothing: gateway, router, workers."""
        await until(lambda: self.gateway.stats().in_flight == 0)
        await until(lambda: all(count == (0, 0, 0.0) for count in self.routed.counts().values()))
        self.routed.check_idle()
        for address in addresses:
            assert await worker_requests(address) == []
            assert (await worker_load(address)).used_blocks == 0


def body(script: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": json.dumps({"script": script})}]} | fields


@asynccontextmanager
async def platform(workers: Sequence[Any], grant: Grant | None = None, **settings: Any) -> AsyncIterator[Platform]:
    keys = Keys()
    keys.granted[KEY] = grant or keys.granted[KEY]
    async with routing(workers, **settings) as routed, serving(routed.router, keys) as (gateway, http, _, _):
        yield Platform(routed, gateway, http)


either = pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])


async def test_an_answer_and_what_it_used() -> None:
    async with scripted_server() as worker, platform([worker]) as here:
        script = {"text": "one two three"}
        text = f"<|im_start|>user\n{json.dumps({'script': script})}<|im_end|>\n<|im_start|>assistant\n"
        plain = await here.chat(script)
        usage = plain.json["usage"]
        assert plain.json["choices"][0]["message"]["content"] == "one two three"
        assert usage["prompt_tokens"] == len(TOKENIZER.encode(text))
        again = await here.chat(script, stream=True, stream_options={"include_usage": True})
        last = events(again.body)[-2]["usage"]
        assert joined(again.body) == "one two three"
        assert (last["prompt_tokens"], last["completion_tokens"]) == (
            usage["prompt_tokens"],
            usage["completion_tokens"],
        )
        assert last["prompt_tokens_details"]["cached_tokens"] >= 16
        await here.idle(worker.address)


@pytest.mark.parametrize("way", [routing, remote_rig], ids=["router inside", "router of its own"])
async def test_each_event_says_when_its_token_left_each_process(way: Callable[[Sequence[Any]], Any]) -> None:
    async with scripted_server() as worker, way([worker]) as routed, serving(routed.router, Keys()) as (_, http, _, _):
        asked = {"stream": True, "stream_options": {"include_hops": True}}
        began = time.time()
        response = await http.post(CHAT, json=body({"tokens": 6, "delay_s": 0.05}, **asked))
        took = time.time() - began
    told = [event["hops"] for event in events(response.content)[:-1] if "hops" in event]
    assert [each["tokens"] for each in told] == [1, 2, 3, 4, 5, 6]
    for each in told:
        # Wall clocks are moved while they run, and who reads two clocks may lose the core between them. Tokens are
        # further apart than that.
        assert 0 < each["worker"] < each["router"] + 0.02 < each["gateway"] + 0.04 < took + 0.06
    gaps = [later["worker"] - earlier["worker"] for earlier, later in pairwise(told)]
    assert min(gaps) > 0.025, "each is the time of its own token"


@pytest.mark.parametrize("priority", [10, -10])
async def test_a_tier_that_is_served_first_has_the_lower_priority_at_its_worker(priority: int) -> None:
    grant = Grant("k", priority=priority)
    async with scripted_server() as worker, platform([worker], grant) as here:
        asked = asyncio.create_task(here.chat({"tokens": 4000, "delay_s": 0.01}, stream=True, user="tiered"))
        await until(lambda: here.routed.counts()[worker.spec.worker_id][0])
        await eventually(lambda: worker_requests(worker.address))
        assert await worker_priorities(worker.address) == {"tiered": -priority}
        here.routed.router.cancel("tiered")
        await asked
        await here.idle(worker.address)


@either
async def test_characters_in_pieces(stream: bool) -> None:
    """S01: on a worker, streamed and whole; bytes that dangle at the end are left out of both."""
    async with scripted_server() as worker, platform([worker]) as here:
        text, _ = await here.text({"bytes": ["F09F", "9880", "ED95", "9C"]}, stream=stream)
        assert text == "😀한"
        text, _ = await here.text({"bytes": ["41", "F09F98"]}, stream=stream)
        assert text == "A"


@either
async def test_stop_strings(stream: bool) -> None:
    """S02."""
    async with scripted_server() as worker, platform([worker]) as here:
        pieces = ["DEF", "G", "HI", "J"]
        assert await here.text({"pieces": pieces}, stream=stream, stop=["DEFGHIJ"]) == ("", "stop")
        assert await here.text({"pieces": [*pieces[:3], "X"]}, stream=stream, stop=["DEFGHIJ"]) == ("DEFGHIX", "stop")
        assert await here.text({"pieces": pieces}, stream=stream, stop="DE") == ("", "stop")
        assert await here.text({"pieces": pieces}, stream=stream, stop=["zzz", "HI"]) == ("DEFG", "stop")
        held = len(TOKENIZER.encode("DEF"))
        cut = await here.text({"pieces": pieces}, stream=stream, stop=["DEFGHIJ"], max_tokens=held)
        assert cut == ("DEF", "length")


async def test_log_probabilities_are_the_same_in_both_modes() -> None:
    """N01."""
    async with scripted_server() as worker, platform([worker]) as here:
        script = {"bytes": ["F09F", "9880", "206F6B"]}
        plain = (await here.chat(script, logprobs=True, top_logprobs=2)).json["choices"][0]
        streamed = []
        for event in events((await here.chat(script, logprobs=True, top_logprobs=2, stream=True)).body)[:-1]:
            streamed += (event["choices"][0]["logprobs"] or {"content": []})["content"]
        assert streamed == plain["logprobs"]["content"]
        raw = bytes(byte for entry in streamed for byte in entry["bytes"])
        assert raw.decode() == plain["message"]["content"] == "😀 ok"


async def test_many_streams_over_two_workers() -> None:
    async with (
        scripted_server(worker_id="a") as first,
        scripted_server(worker_id="b") as second,
        platform([first, second]) as here,
    ):
        answers = await asyncio.gather(
            *(here.chat({"text": f"number {index}", "tokens": 30}, stream=True) for index in range(32))
        )
        for index, answer in enumerate(answers):
            assert events(answer.body)[-1] == "[DONE]"
            assert joined(answer.body).startswith(f"number {index}")
        assert here.gateway.stats().responses == {200: 32}
        await here.idle(first.address, second.address)


@either
async def test_a_worker_that_dies_before_the_first_token_is_not_noticed(tmp_path: Path, stream: bool) -> None:
    """S06 (a): one silent retry elsewhere."""
    async with scripted_worker(tmp_path, worker_id="a", prefill_s_per_token=1.0) as first, platform([first]) as here:
        answer = asyncio.create_task(here.text({"text": "hello"}, stream=stream))
        await until(lambda: here.routed.counts()["a"][0])
        async with scripted_server(worker_id="b") as second:
            await here.routed.fleet.add(second)
            await here.routed.ready(2)
            first.process.kill()
            assert await answer == ("hello", "stop")
            await here.idle(second.address)


@either
async def test_a_worker_that_dies_in_mid_answer(tmp_path: Path, stream: bool) -> None:
    """S06 (b), and A01: the models are listed with one of two workers dead."""
    async with (
        scripted_worker(tmp_path, worker_id="a") as first,
        scripted_worker(tmp_path, worker_id="b") as second,
        platform([first, second], retries=0) as here,
    ):
        answer = await here.chat({"text": "abcdefgh", "die_after": 3, "delay_s": 0.02}, stream=stream)
        if stream:
            assert answer.status == 200
            assert joined(answer.body) == "abc"
            assert events(answer.body)[-1]["error"]["code"] == "worker_lost"
        else:
            assert (answer.status, answer.error["code"]) == (502, "worker_lost")
        assert await here.text({"text": "still here"}, stream=stream) == ("still here", "stop")
        assert [model["id"] for model in (await here.http.get("/v1/models")).json()["data"]] == [MODEL, "empty"]
        await until(lambda: here.gateway.stats().in_flight == 0)


async def test_bad_numbers_disturb_no_worker_and_no_other_call(tmp_path: Path) -> None:
    """A06: the worker is the process that it was, and a call that runs meanwhile is whole."""
    async with scripted_worker(tmp_path, worker_id="a") as worker, platform([worker]) as here:
        running = asyncio.create_task(here.text({"tokens": 60, "delay_s": 0.005}, stream=True))
        await until(lambda: here.routed.counts()["a"][0])
        for fields in (
            {"temperature": 2.1},
            {"temperature": -1},
            {"logit_bias": {"AI": 1}},
            {"logit_bias": {"999999999": 1}},
            {"seed": 2**64},
            {"top_p": 0},
            {"logprobs": True, "top_logprobs": 10**30},
        ):
            answer = await here.chat({"text": "x"}, **fields)
            assert (answer.status, answer.error["param"]) == (400, list(fields)[-1])
        for temperature in (0, 1e-4, 2):
            assert (await here.text({"text": "warm"}, stream=False, temperature=temperature))[0] == "warm"
        assert (await running)[1] == "stop"
        assert worker.process.returncode is None
        await here.idle(worker.address)


async def test_a_client_that_leaves_while_it_waits_never_reaches_a_worker(tmp_path: Path) -> None:
    """C01."""
    trace = tmp_path / "trace.jsonl"
    async with (
        scripted_server(max_num_seqs=1, trace_path=str(trace)) as worker,
        platform([worker]) as here,
    ):
        clients = {name: await here.connect() for name in ("running", "next", "leaves", "stays")}
        # One call runs, one waits in the worker's batch queue, and the router keeps the others.
        for name, held, queued in (("running", 1, 0), ("next", 2, 0), ("leaves", 2, 1), ("stays", 2, 2)):
            script = {"tokens": 200 if name == "running" else 3, "delay_s": 0.005, "mark": name}
            clients[name].send(request(CHAT, body(script, stream=True), key=KEY, x_request_id=f"req-{name}"))
            await until(lambda held=held: here.routed.counts()["scripted-1"][0] == held)
            await until(lambda queued=queued: here.routed.router.dispatcher.queued == queued)
        clients["leaves"].reset()
        await until(lambda: here.routed.router.dispatcher.queued == 1)
        for name in ("running", "next", "stays"):
            assert joined((await clients[name].answer()).body)
        assert here.gateway.stats().responses == {200: 3, 499: 1}
        marks = {json.loads(line).get("mark") for line in trace.read_text().splitlines()}
        assert marks == {"running", "next", "stays"}
        await here.idle(worker.address)
        for client in clients.values():
            client.close()


@either
@pytest.mark.parametrize("when", ["prefill", "decode"])
async def test_a_client_that_leaves_stops_its_generation(stream: bool, when: str) -> None:
    """C02, on a scripted engine."""
    async with scripted_server() as worker, platform([worker]) as here:
        client = await here.connect()
        script = {"tokens": 4000, "delay_s": 0.005, "prefill_s": 60.0 if when == "prefill" else 0.0}
        client.send(request(CHAT, body(script, stream=stream), key=KEY))
        await until(lambda: any(count[0] for count in here.routed.counts().values()))
        if when == "decode" and stream:
            await client.reader.readuntil(b'"content":" ')
        client.reset()
        await here.idle(worker.address)
        assert here.gateway.stats().responses == {499: 1}


@either
async def test_a_call_that_is_left_is_charged_what_was_generated(stream: bool) -> None:
    """L04: what the worker had generated is charged, within a step, and the rest refunded."""
    grant = Grant("key-1", limits=Limits(tpm=10_000))
    async with scripted_server() as worker, platform([worker], grant) as here:
        client = await here.connect()
        script = {"tokens": 4000, "delay_s": 0.005}
        client.send(request(CHAT, body(script, stream=stream, max_tokens=900), key=KEY))

        async def under_way() -> bool:
            return (await worker_load(worker.address)).generated_tokens >= 20

        await eventually(under_way)
        client.reset()
        await until(lambda: not here.gateway.stats().in_flight and not here.gateway.stats().reserved_tokens)
        await here.idle(worker.address)
        answer = await here.http.post(CHAT, content=b"{", headers={"content-type": "application/json"})
        charged = 10_000 - int(answer.headers["x-ratelimit-remaining-tokens"])
        text = f"<|im_start|>user\n{json.dumps({'script': script})}<|im_end|>\n<|im_start|>assistant\n"
        generated = (await worker_load(worker.address)).generated_tokens
        assert generated - 2 <= charged - len(TOKENIZER.encode(text)) <= generated
        client.close()


@either
async def test_an_operator_cancels(stream: bool) -> None:
    """C04: while it decodes."""
    async with scripted_server() as worker, platform([worker]) as here:
        client = await here.connect()
        script = {"tokens": 4000, "delay_s": 0.005}
        client.send(request(CHAT, body(script, stream=stream), key=KEY, x_request_id="req-1"))
        await until(lambda: any(count[0] for count in here.routed.counts().values()))
        if stream:
            await client.reader.readuntil(b"\r\n\r\n")
            await anext(client.chunks())
        here.routed.fleet.cancel("req-1")
        if stream:
            rest = b"".join([chunk async for chunk in client.chunks()])
            assert b'"code":"request_cancelled"' in rest
            assert b"[DONE]" not in rest
        else:
            answer = await client.answer()
            assert (answer.status, answer.error["code"]) == (499, "request_cancelled")
            assert answer.headers["x-should-retry"] == "false"
        await here.idle(worker.address)
        await until(lambda: "req-1" in here.routed.fleet.ended)
        assert here.routed.fleet.ended["req-1"].phase is RequestPhase.CANCELLED
        client.close()


@either
async def test_a_cancel_at_any_moment_ends_its_call_once_and_leaves_nothing(stream: bool) -> None:
    """C04: queued, dispatching, decoding, finished and unknown, each told twice."""
    async with scripted_server(max_num_seqs=2) as worker, platform([worker]) as here:

        async def one(index: int) -> str:
            name = f"req-{index}"
            call = asyncio.create_task(here.chat({"tokens": 8, "delay_s": 0.004}, stream=stream, user=name))
            await asyncio.sleep(index % 11 * 0.005)
            for _ in range(2):
                here.routed.fleet.cancel(name)
                here.routed.fleet.cancel(f"unknown-{index}")
            answer = await call
            if answer.status == 499:
                assert answer.headers["x-should-retry"] == "false"
                return str(answer.error["code"])
            assert answer.status == 200
            last = events(answer.body)[-1] if stream else "[DONE]"
            return last if isinstance(last, str) else str(last["error"]["code"])

        ends = await asyncio.gather(*(one(index) for index in range(44)))
        assert set(ends) <= {"[DONE]", "request_cancelled"}
        assert "request_cancelled" in ends
        await here.idle(worker.address)


async def test_a_model_without_workers_is_held_and_then_refused() -> None:
    """A01: 503 for a known model, 404 for an unknown one."""
    async with (
        routing([], queue_timeout_s=0.2) as routed,
        serving(routed.router, Keys(), options={"wait_s": 0.3}) as (_, http, _, _),
    ):
        for model, status in ((MODEL, 503), ("nope", 404)):
            response = await http.post(CHAT, json=body({}) | {"model": model})
            assert response.status_code == status, response.text
        assert (await http.get("/ready")).status_code == 503
