"""A router, played by the test, that joins the fleet."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from control_plane.contracts.errors import NotFound
from control_plane.contracts.fleet import (
    CancelOutcome,
    EndpointSet,
    GatewayIdentity,
    GatewayStats,
    GatewayView,
    Histogram,
    RequestPhase,
    RequestView,
    RouterReport,
    Snapshot,
    WorkerPhase,
)
from control_plane.contracts.histogram import bucket_of
from control_plane.contracts.v1 import access_pb2
from control_plane.contracts.v1 import operator_pb2 as pb
from control_plane.contracts.v1.access_pb2_grpc import AccessStub
from control_plane.contracts.v1.operator_pb2_grpc import FleetStub
from control_plane.contracts.wire.convert import from_wire, to_wire
from tests.integration.fleet.rig import Deck, worker


class FakeRouter:
    """One Join stream, spoken by hand."""

    def __init__(self, call: Any) -> None:
        self._call = call

    async def say(self, report: RouterReport) -> None:
        await self._call.write(to_wire(report, pb.RouterReport))

    async def hear(self) -> pb.FleetUpdate:
        async with asyncio.timeout(30):
            update: Any = await self._call.read()
        assert update is not grpc.aio.EOF
        heard: pb.FleetUpdate = update
        return heard

    async def endpoints(self) -> EndpointSet:
        while True:
            update = await self.hear()
            if update.WhichOneof("kind") == "endpoints":
                return from_wire(update.endpoints, EndpointSet)

    async def cancel(self) -> str:
        while True:
            update = await self.hear()
            if update.WhichOneof("kind") == "cancel":
                return update.cancel.request_id

    async def over(self) -> None:
        async with asyncio.timeout(30):
            while await self._call.read() is not grpc.aio.EOF:
                pass


@contextlib.asynccontextmanager
async def joined(deck: Deck, name: str = "g9", pid: int = 4_000_001) -> AsyncIterator[FakeRouter]:
    key = (deck.home / "operator.key").read_text().strip()
    async with grpc.aio.insecure_channel(deck.state()["api_address"]) as channel:
        stub: Any = FleetStub
        call = stub(channel).Join(metadata=(("authorization", f"Bearer {key}"),))
        router = FakeRouter(call)
        await router.say(RouterReport(identity=GatewayIdentity(name, pid, "http://elsewhere:1", 1000.0)))
        yield router
        call.cancel()


def view(request_id: str, worker_id: str = "tiny-1", **fields: Any) -> RequestView:
    given = {"phase": RequestPhase.DECODING, "arrival_unix": time.time(), "output_tokens": 1} | fields
    return RequestView(request_id, "g9", "tiny", worker_id=worker_id, **given)


def gateway(snapshot: Snapshot, name: str = "g9") -> GatewayView | None:
    return next((each for each in snapshot.gateways if each.id == name), None)


async def test_endpoints_come_at_once_and_with_every_change(deck: Deck) -> None:
    async with joined(deck) as router, deck.operator() as operator:
        first = await router.endpoints()
        assert [(each.worker_id, each.phase, each.cordoned) for each in first.endpoints] == [
            ("tiny-1", WorkerPhase.READY, False),
            ("tiny-2", WorkerPhase.READY, False),
        ]
        one = first.endpoints[0]
        assert one.info is not None
        assert one.load is not None
        assert (one.instance_id, one.model, one.pool) == (one.info.instance_id, "tiny", "tiny")
        assert one.load_age_s < 3
        assert [(model.name, model.pool, model.ready_workers) for model in first.models] == [("tiny", "tiny", 2)]
        assert first.models[0].max_context == 2048

        asked_at = time.monotonic()
        await operator.cordon("tiny-1")
        while not (await router.endpoints()).endpoints[0].cordoned:
            pass
        assert time.monotonic() - asked_at < 5
        await operator.uncordon("tiny-1")
        while (await router.endpoints()).endpoints[0].cordoned:
            pass


async def test_what_a_router_reports_is_what_operators_see(deck: Deck) -> None:
    async with joined(deck) as router:
        stats = GatewayStats(True, 2, 1, 10, {200: 9, 401: 1}, 500, 1 << 20, 1.5)
        ttft, itl = Histogram({bucket_of(0.2): 3}), Histogram({bucket_of(0.05): 90, bucket_of(0.5): 10})
        await router.say(
            RouterReport(
                active=(view("r-1"), view("r-2", worker_id="", phase=RequestPhase.QUEUED, output_tokens=0)),
                ended=(view("r-0", phase=RequestPhase.FINISHED, reason="stop"),),
                stats=stats,
                ttft={"tiny-1": ttft},
                itl={"tiny-1": itl},
            )
        )
        seen = await deck.until(lambda snapshot: len([each for each in snapshot.requests if each.id[:2] == "r-"]) == 3)
        assert [(each.id, each.phase) for each in seen.requests if each.id[:2] == "r-"] == [
            ("r-0", RequestPhase.FINISHED),
            ("r-1", RequestPhase.DECODING),
            ("r-2", RequestPhase.QUEUED),
        ]
        assert worker(seen, "tiny-1").in_flight == 1
        latency = worker(seen, "tiny-1").latency
        assert latency is not None
        assert (latency.ttft_count, latency.itl_count) == (3, 100)
        assert latency.ttft_p50 == pytest.approx(0.2, rel=0.03)
        assert latency.itl_p50 == pytest.approx(0.05, rel=0.03)
        assert latency.itl_p99 == pytest.approx(0.5, rel=0.03)
        mine = gateway(seen)
        assert mine is not None
        assert (mine.pid, mine.url, mine.ready, mine.in_flight, mine.queued) == (
            4_000_001,
            "http://elsewhere:1",
            True,
            2,
            1,
        )
        assert (mine.requests_total, mine.responses) == (10, {200: 9, 401: 1})

        async with deck.operator() as operator:
            plain = await operator.get_snapshot()
        assert "r-0" not in [each.id for each in plain.requests], "ended ones only when asked for"

        await router.say(RouterReport(active=(), stats=GatewayStats(True)))
        await deck.until(lambda snapshot: worker(snapshot, "tiny-1").in_flight == 0)
    await deck.until(lambda snapshot: gateway(snapshot) is None)


async def test_cancel_goes_down_and_its_outcome_comes_up(deck: Deck) -> None:
    async with joined(deck) as router, deck.operator() as operator:
        await router.say(RouterReport(active=(view("c-1"),)))
        await deck.until(lambda snapshot: "c-1" in [each.id for each in snapshot.requests])

        asked = asyncio.create_task(operator.cancel("c-1"))
        assert await router.cancel() == "c-1"
        await router.say(RouterReport(active=(view("c-1"),), cancels=(CancelOutcome("c-1", True),)))
        result = await asked
        assert (result.changed, result.message) == (True, "request/c-1 cancelled")

        asked = asyncio.create_task(operator.cancel("c-gone"))
        assert await router.cancel() == "c-gone"
        await router.say(RouterReport(cancels=(CancelOutcome("c-gone", True, already_ended=True),)))
        result = await asked
        assert (result.changed, result.message) == (False, "request/c-gone has ended already")

        asked = asyncio.create_task(operator.cancel("c-never"))
        assert await router.cancel() == "c-never"
        await router.say(RouterReport(cancels=(CancelOutcome("c-never", False),)))
        with pytest.raises(NotFound):
            await asked


async def test_a_router_that_does_not_answer_does_not_hold_a_cancel_for_ever(deck: Deck) -> None:
    async with joined(deck) as router, deck.operator() as operator:
        await router.endpoints()
        with pytest.raises(NotFound):
            await operator.cancel("c-silence")


async def test_the_second_session_of_a_router_replaces_the_first(deck: Deck) -> None:
    async with joined(deck) as first:
        await first.say(RouterReport(active=(view("s-1"),), stats=GatewayStats(True)))
        await deck.until(lambda snapshot: "s-1" in [each.id for each in snapshot.requests])
        async with joined(deck) as second:
            await second.endpoints()
            await first.over()
            await second.say(RouterReport(active=(view("s-2"),), stats=GatewayStats(True)))
            seen = await deck.until(lambda snapshot: "s-2" in [each.id for each in snapshot.requests])
            assert "s-1" not in [each.id for each in seen.requests if each.phase.active]


async def test_a_stream_that_does_not_say_hello_first_is_refused(deck: Deck) -> None:
    key = (deck.home / "operator.key").read_text().strip()
    async with grpc.aio.insecure_channel(deck.state()["api_address"]) as channel:
        stub: Any = FleetStub
        call = stub(channel).Join(metadata=(("authorization", f"Bearer {key}"),))
        await call.write(pb.RouterReport(active=[pb.RequestView(id="x")]))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_how_to_choose_is_told_at_once_and_when_the_policy_changes(deck: Deck) -> None:
    async with joined(deck) as router:
        assert (await router.hear()).WhichOneof("kind") == "routing"
        key = (deck.home / "operator.key").read_text().strip()
        async with grpc.aio.insecure_channel(deck.state()["api_address"]) as channel:
            stub: Any = AccessStub
            ask = access_pb2.SetPolicyRequest(assignments=["routing.profile=round_robin"])
            await stub(channel).SetPolicy(ask, metadata=(("authorization", f"Bearer {key}"),))
        while (update := await router.hear()).WhichOneof("kind") != "routing":
            pass
        assert update.routing.profile == "round_robin"
