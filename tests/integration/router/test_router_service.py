"""The service of a router that is a process of its own, as others than gateways use it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from control_plane.contracts.v1 import router_pb2 as pb
from control_plane.contracts.v1.router_pb2_grpc import RouterStub
from control_plane.contracts.wire.routed import models_from_wire
from tests.integration.router.rig import GENEROUS_S, MODEL, RemoteRig, remote_rig, until
from tests.scripted_worker import scripted_server


@asynccontextmanager
async def stub(made: RemoteRig, name: str = "r1") -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(made.hosts[name].server.address) as channel:
        make: Any = RouterStub
        yield make(channel)


async def test_its_state_is_what_it_holds_and_for_whom() -> None:
    async with (
        scripted_server(worker_id="a") as a,
        scripted_server(worker_id="b") as b,
        remote_rig([a, b]) as made,
        stub(made) as router,
    ):
        handle, _ = made.submit({"tokens": 3, "prefill_s": 20}, n=2)
        made.submit(model="empty")
        await until(lambda: handle.worker_id)
        await until(lambda: made.hosts["r1"].core.dispatcher.queued == 1)
        state = await router.State(pb.StateRequest())
        assert (state.router_id, state.profile, state.queued) == ("r1", made.hosts["r1"].core.profile, 1)
        assert [(gateway.id, gateway.in_flight) for gateway in state.gateways] == [("g1", 2)]
        seen = {endpoint.worker_id: endpoint for endpoint in state.endpoints}
        assert list(seen) == ["a", "b"]
        held = {name: (each.requests, each.sequences) for name, each in seen.items()}
        assert held == {name: (1, 2) if name == handle.worker_id else (0, 0) for name in "ab"}
        assert all(each.ready and each.connected and each.model == MODEL for each in seen.values())
        assert {each.sample_age_s for each in seen.values()} == {-1.0}, "the test's fleet tells no load"
        handle.cancel("client_left")


async def test_models_are_told_at_once_and_with_every_change() -> None:
    async with scripted_server(worker_id="a") as a, remote_rig([a]) as made, stub(made) as router:
        call = router.Route()
        await call.write(pb.GatewayFrame(hello=pb.GatewayHello(gateway_id="g7", router_id="r1")))

        async def told() -> pb.Catalogue:
            while not (frame := await call.read()).HasField("catalogue"):
                pass
            catalogue: pb.Catalogue = frame.catalogue
            return catalogue

        first = await told()
        assert (first.router_id, first.joined, first.ready, first.draining) == ("r1", True, True, False)
        views = {view.name: view for view in models_from_wire(first)}
        assert views[MODEL].ready_workers == 1
        assert a.info.model is not None
        assert views[MODEL].max_context == a.info.model.max_context
        made.fleet.change("a", cordoned=True)
        while (await told()).ready:
            pass
        made.hosts["r1"].server.drain()
        while not (await told()).draining:
            pass
        call.cancel()


async def test_health_and_a_gateway_that_does_not_say_who_it_is() -> None:
    async with scripted_server() as worker, remote_rig([worker]) as made, stub(made) as router:
        async with grpc.aio.insecure_channel(made.hosts["r1"].server.address) as channel:
            check: Any = health_pb2_grpc.HealthStub(channel)
            answer = await check.Check(health_pb2.HealthCheckRequest(service="inferdeck.v1.Router"))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        for hello, said in (
            (pb.GatewayHello(gateway_id="g7", router_id="r2"), "this is router r1, not r2"),
            (pb.GatewayHello(router_id="r1"), "a gateway says who it is"),
        ):
            call = router.Route()
            await call.write(pb.GatewayFrame(hello=hello))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call.read()
            assert said in str(caught.value.details())


async def test_calls_end_with_the_stream_that_they_came_over() -> None:
    async with scripted_server() as worker, remote_rig([worker]) as made:
        handle, sink = made.submit({"tokens": 900, "delay_s": 0.01})
        await sink.begun()
        await made.router.close()
        assert sink.error is not None
        await until(lambda: worker.engine.load().running == 0)
        await until(lambda: made.hosts["r1"].core.in_flight == 0)
        assert handle.over


def submit(number: int, request_id: str) -> pb.GatewayFrame:
    frame = pb.GatewayFrame()
    frame.submit.call = number
    frame.submit.routed.request_id = request_id
    frame.submit.routed.model = "empty"
    frame.submit.routed.prompt_token_ids.append(1)
    frame.submit.routed.sampling.max_tokens = 4
    return frame


async def test_a_call_that_cannot_be_read_is_refused_and_the_others_stay() -> None:
    async with remote_rig() as made, stub(made) as router:
        await until(lambda: made.hosts["r1"].core.joined)
        call = router.Route()
        await call.write(pb.GatewayFrame(hello=pb.GatewayHello(gateway_id="g7", router_id="r1")))
        await call.write(submit(1, "good"))
        bad = submit(2, "bad")
        bad.submit.routed.ClearField("sampling")
        await call.write(bad)
        async with asyncio.timeout(GENEROUS_S):
            while not (frame := await call.read()).refusals:
                pass
        assert [(told.call, told.reason) for told in frame.refusals] == [(2, "internal_error")]
        assert made.hosts["r1"].core.in_flight == 1
        call.cancel()


async def test_a_second_call_with_a_number_in_use_changes_nothing_of_the_first() -> None:
    async with remote_rig() as made, stub(made) as router:
        core = made.hosts["r1"].core
        await until(lambda: core.joined)
        call = router.Route()
        await call.write(pb.GatewayFrame(hello=pb.GatewayHello(gateway_id="g7", router_id="r1")))
        await call.write(submit(1, "first"))
        second = submit(1, "second")
        await call.write(second)
        second.submit.routed.ClearField("sampling")
        await call.write(second)
        await call.write(submit(2, "last"))
        await until(lambda: core.in_flight == 2)
        await call.write(pb.GatewayFrame(withdraw=pb.WithdrawCall(call=1, reason="client_left")))
        await until(lambda: core.in_flight == 1)
        call.cancel()


async def test_bytes_that_are_no_frame_are_passed_over() -> None:
    async with remote_rig() as made:
        core, server = made.hosts["r1"].core, made.hosts["r1"].server
        await until(lambda: core.joined)
        async with grpc.aio.insecure_channel(server.address) as channel:
            raw: Any = channel.stream_stream("/inferdeck.v1.Router/Route")
            call = raw()
            hello = pb.GatewayHello(gateway_id="g7", router_id="r1")
            await call.write(pb.GatewayFrame(hello=hello).SerializeToString())
            for data in (b"", b"\xff", b"\x0a\x05abc", b"\x12\x02\x08", b"\x12\x00", bytes(range(256))):
                await call.write(data)
            await call.write(submit(1, "good").SerializeToString())
            await until(lambda: core.in_flight == 1)
            call.cancel()
