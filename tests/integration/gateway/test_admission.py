"""What callers of each tier are answered while workers fill up: all is real but the fleet, which the test plays."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from control_plane.contracts.admission import AdmissionRules
from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import DEFAULT_TIERS, Limits
from control_plane.contracts.routing import Routing
from control_plane.contracts.worker import Load, WorkerState
from control_plane.gateway.server import Gateway
from control_plane.router.admission_figures import AdmissionFigures
from tests.integration.gateway.rig import CHAT, Answer, Keys, RawClient, request, serving
from tests.integration.router.rig import MODEL, rig, worker_requests
from tests.integration.router.rig import Rig as Routed
from tests.scripted_worker import ScriptedServer, scripted_server
from tests.unit.gateway.fakes import until


def grant(tier: str, **more: Any) -> Grant:
    of = DEFAULT_TIERS[tier]
    values: dict[str, Any] = {
        "tenant": f"{tier}-tenant",
        "tier": tier,
        "priority": of.priority,
        "weight": of.weight,
        "queue_deadline_s": of.queue_deadline_s,
        "at_busy": of.at_busy,
        "at_reject": of.at_reject,
        "min_share": of.min_share,
        "limits": Limits(rpm=1000, tpm=1_000_000),
    }
    return Grant(f"key-{tier}", **(values | more))


@dataclass
class Here:
    worker: ScriptedServer
    routed: Routed
    gateway: Gateway
    keys: Keys
    http: httpx.AsyncClient

    def full(self, kv_usage: float) -> None:
        """The fleet tells that the worker's KV cache is so full now."""
        [(worker_id, endpoint)] = self.routed.fleet.workers.items()
        load = Load(endpoint.instance_id, time.time(), WorkerState.READY, kv_usage=kv_usage)
        self.routed.fleet.change(worker_id, load=load, load_age_s=0.0)

    async def is_full(self, kv_usage: float) -> None:
        self.full(kv_usage)
        candidates = self.routed.router.dispatcher.targets.candidates(MODEL)
        await until(lambda: [candidate.kv_usage for candidate in candidates] == [kv_usage])

    async def ask(self, tier: str, **fields: Any) -> Answer:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4} | fields
        headers = {"authorization": f"Bearer sk-{tier}"}
        response = await self.http.post(CHAT, json=body, headers=headers)
        return Answer(response.status_code, dict(response.headers), response.content)

    def start(self, tier: str, **fields: Any) -> asyncio.Task[Answer]:
        return asyncio.create_task(self.ask(tier, **fields))

    async def queued(self, count: int) -> None:
        await until(lambda: self.routed.router.dispatcher.queued == count)

    async def idle(self) -> None:
        await until(lambda: self.gateway.stats().in_flight == 0)
        await until(lambda: self.gateway.stats().reserved_tokens == 0)
        await until(lambda: all(count == (0, 0, 0.0) for count in self.routed.counts().values()))
        self.routed.check_idle()
        assert await worker_requests(self.worker.address) == []


@asynccontextmanager
async def here(**rules: Any) -> AsyncIterator[Here]:
    keys = Keys()
    for tier in DEFAULT_TIERS:
        keys.granted[f"sk-{tier}"] = grant(tier)
    async with (
        scripted_server() as worker,
        rig([worker]) as routed,
        serving(routed.router, keys) as (gateway, http, _, _),
    ):
        routed.router.route(Routing(admission=AdmissionRules(**rules)))
        yield Here(worker, routed, gateway, keys, http)


def check_come_again(answer: Answer) -> None:
    """L02: whole seconds that the official client obeys."""
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert "x-should-retry" not in answer.headers


async def test_the_three_states_and_each_tiers_answers() -> None:
    async with here() as platform:
        await platform.is_full(0.40)
        assert [(await platform.ask(tier)).status for tier in DEFAULT_TIERS] == [200, 200, 200]

        await platform.is_full(0.82)
        assert (await platform.ask("enterprise")).status == 200
        paid = platform.start("paid")
        await platform.queued(1)
        free = await platform.ask("free", stream=True)
        assert (free.status, free.error["code"], free.error["type"]) == (429, "tier_throttled", "requests")
        check_come_again(free)

        await platform.is_full(0.95)
        enterprise = platform.start("enterprise")
        await platform.queued(2)
        free = await platform.ask("free")
        assert (free.status, free.error["code"], free.error["type"]) == (503, "overloaded", "server_error")
        check_come_again(free)
        assert not paid.done()

        await platform.is_full(0.30)
        assert [(await waiting).status for waiting in (enterprise, paid)] == [200, 200]
        await platform.idle()


async def test_ad01_what_the_queue_has_no_room_for_is_told_at_once() -> None:
    async with here(queue_limit=2, queue_share=1.0) as platform:
        await platform.is_full(0.95)
        paid = [platform.start("paid") for _ in range(5)]
        await until(lambda: sum(task.done() for task in paid) == 3)
        for task in paid:
            if task.done():
                answer = await task
                assert (answer.status, answer.error["code"], answer.error["param"]) == (503, "overloaded", None)
                check_come_again(answer)
        enterprise = platform.start("enterprise")
        await until(lambda: sum(task.done() for task in paid) == 4)
        await platform.is_full(0.30)
        assert (await enterprise).status == 200
        assert sorted([(await task).status for task in paid]) == [200, 503, 503, 503, 503]
        await platform.idle()


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
async def test_the_deadline_is_told_before_any_header(stream: bool) -> None:
    async with here() as platform:
        platform.keys.granted["sk-paid"] = grant("paid", queue_deadline_s=0.2)
        await platform.is_full(0.95)
        answer = await platform.ask("paid", stream=stream)
        assert (answer.status, answer.error["code"]) == (503, "overloaded")
        assert answer.headers["content-type"] == "application/json"
        check_come_again(answer)
        await platform.idle()


async def test_c01_a_client_that_leaves_the_queue_is_refunded_and_its_call_never_runs() -> None:
    async with here() as platform:
        await platform.is_full(0.95)
        body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
        client = RawClient(*await asyncio.open_connection("127.0.0.1", platform.gateway.port))
        client.send(request(body=body, key="sk-paid"))
        await platform.queued(1)
        other = platform.start("paid")
        await platform.queued(2)
        assert platform.gateway.stats().reserved_tokens > 0
        client.close()
        await platform.queued(1)
        await until(lambda: platform.gateway.stats().responses.get(499) == 1)
        await platform.is_full(0.30)
        assert (await other).status == 200
        await platform.idle()
        assert platform.worker.engine.load().prompt_tokens < 2 * len(json.dumps(body)), "only one of them ran"


async def test_a_tiers_answer_is_not_held_against_its_limits() -> None:
    async with here() as platform:
        platform.keys.granted["sk-free"] = grant("free", limits=Limits(rpm=2, tpm=1_000_000))
        await platform.is_full(0.82)
        for _ in range(4):
            assert (await platform.ask("free")).error["code"] == "tier_throttled"
        await platform.is_full(0.30)
        assert [(await platform.ask("free")).status for _ in range(3)] == [200, 200, 429]
        await platform.idle()


async def test_metrics_tell_band_queue_and_rejections_by_tier() -> None:
    async with here() as platform:
        registry = CollectorRegistry()
        registry.register(AdmissionFigures(platform.routed.router.dispatcher))
        await platform.is_full(0.95)
        waiting = platform.start("paid")
        await platform.queued(1)
        await platform.ask("free")
        text = generate_latest(registry).decode()
        for line in (
            f'inferdeck_router_saturation{{model="{MODEL}"}} 0.95',
            f'inferdeck_router_band{{model="{MODEL}"}} 3.0',
            f'inferdeck_router_queued{{model="{MODEL}",tier="paid"}} 1.0',
            f'inferdeck_router_stale_endpoints{{model="{MODEL}"}} 0.0',
            f'inferdeck_router_rejections_total{{model="{MODEL}",reason="overloaded",tier="free"}} 1.0',
        ):
            assert line in text
        assert "inferdeck_router_sample_age_seconds" in text
        await platform.is_full(0.30)
        assert (await waiting).status == 200
