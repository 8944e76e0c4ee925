"""The operators' API as its clients see it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from console.client import OperatorClient
from console.home import Target
from control_plane.contracts.errors import DropReason, Forbidden, InvalidRequest, Unauthenticated
from control_plane.contracts.v1 import operator_pb2 as pb
from control_plane.contracts.wire.status import error_from
from tests.integration.fleet.rig import Deck, contents


def client_with(deck: Deck, key: str) -> OperatorClient:
    return OperatorClient(Target(deck.state()["api_address"], key, "test"))


async def test_only_the_operator_key_opens_it(deck: Deck) -> None:
    key = (deck.home / "operator.key").read_text().strip()
    async with client_with(deck, key) as operator:
        assert len((await operator.get_snapshot()).workers) == 2
    for wrong in ("", "nonsense", key + "x", key[:-1], "sk-inferdeck-" + "x" * 32):
        async with client_with(deck, wrong) as operator:
            with pytest.raises(Unauthenticated, match="operator key") as caught:
                await operator.get_snapshot()
            assert caught.value.reason is DropReason.INVALID_API_KEY
            with pytest.raises(Unauthenticated):
                await anext(aiter(operator.watch()))
            assert not wrong or wrong not in str(caught.value)


async def test_a_callers_key_is_known_and_not_enough(deck: Deck) -> None:
    api_key = (deck.home / "api.key").read_text().strip()
    async with client_with(deck, api_key) as operator:
        for call in (operator.get_snapshot(), operator.cordon("tiny-1"), anext(aiter(operator.shutdown()))):
            with pytest.raises(Forbidden, match="an API key is not an operator key") as caught:
                await call
            assert caught.value.reason is DropReason.NOT_AN_OPERATOR
    assert api_key not in deck.log("control-plane")


async def test_a_call_without_any_metadata_is_refused(deck: Deck) -> None:
    async with grpc.aio.insecure_channel(deck.state()["api_address"]) as channel:
        join = channel.stream_stream("/inferdeck.v1.Fleet/Join")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await join().read()
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    "method", ["Operator/GetSnapshot", "Operator/Cordon", "Operator/Watch", "Access/ListKeys", "Fleet/Join"]
)
async def test_bytes_that_are_no_message_are_their_senders_fault(deck: Deck, method: str) -> None:
    key = (deck.home / "operator.key").read_text().strip()
    async with grpc.aio.insecure_channel(deck.state()["api_address"]) as channel:
        call = channel.unary_stream(f"/inferdeck.v1.{method}")(
            b"\xff\xff", metadata=(("authorization", f"Bearer {key}"),)
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert isinstance(error_from(caught.value), InvalidRequest)
    assert "Unexpected" not in deck.log("control-plane")


async def test_so_are_those_that_come_after_a_routers_first_report(deck: Deck) -> None:
    key = (deck.home / "operator.key").read_text().strip()
    async with grpc.aio.insecure_channel(deck.state()["api_address"]) as channel:
        join: Any = channel.stream_stream("/inferdeck.v1.Fleet/Join")
        call = join(metadata=(("authorization", f"Bearer {key}"),))
        await call.write(pb.RouterReport(identity=pb.GatewayIdentity(id="x")).SerializeToString())
        updates = aiter(call)
        await anext(updates)
        await call.write(b"\xff\xff")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            assert [update async for update in updates]
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "failed inside" not in str(caught.value.details())


async def test_health_is_open_and_reflection_needs_the_key(deck: Deck) -> None:
    key = (deck.home / "operator.key").read_text().strip()
    address = deck.state()["api_address"]

    def names() -> list[str]:
        with grpc.insecure_channel(address) as channel:
            authorized = grpc.intercept_channel(channel, _Bearer(key))
            return sorted(ProtoReflectionDescriptorDatabase(authorized).get_services())

    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        for service in ("", "inferdeck.v1.Operator", "inferdeck.v1.Fleet"):
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert set(await asyncio.to_thread(names)) >= {"inferdeck.v1.Operator", "inferdeck.v1.Fleet"}


class _Bearer(grpc.StreamStreamClientInterceptor):
    def __init__(self, key: str) -> None:
        self._metadata = [("authorization", f"Bearer {key}")]

    def intercept_stream_stream(self, continuation: Any, details: Any, requests: Any) -> Any:
        return continuation(details._replace(metadata=self._metadata), requests)


async def test_watch_pushes_changes_and_goes_on_without_any(deck: Deck) -> None:
    async with deck.operator() as operator, contextlib.aclosing(operator.watch(0.05)) as watch:  # type: ignore[type-var]
        snapshots = aiter(watch)
        first = await anext(snapshots)
        await operator.cordon("tiny-2")
        while not (await anext(snapshots)).workers[1].cordoned:
            pass
        await operator.uncordon("tiny-2")
        revisions = [first.revision]
        while (snapshot := await anext(snapshots)).workers[1].cordoned:
            revisions.append(snapshot.revision)
        assert revisions == sorted(set(revisions))


async def test_watch_keeps_to_the_interval(deck: Deck) -> None:
    async with deck.operator() as operator, contextlib.aclosing(operator.watch(0.5)) as watch:  # type: ignore[type-var]
        stream = asyncio.create_task(deck.stream(tokens=60, delay_s=0.03))
        snapshots = aiter(watch)
        await anext(snapshots)
        began = time.monotonic()
        for _ in range(3):
            await anext(snapshots)
        assert time.monotonic() - began >= 1.4
        assert contents(await stream) == 60


async def test_a_slow_watcher_gets_the_newest_not_a_backlog(deck: Deck) -> None:
    async with deck.operator() as operator, contextlib.aclosing(operator.watch(0.05)) as watch:  # type: ignore[type-var]
        snapshots = aiter(watch)
        await anext(snapshots)
        await deck.stream(tokens=60, delay_s=0.05)  # three seconds in which nobody reads
        async with deck.operator() as other:
            newest = (await other.get_snapshot()).revision
        seen = 0
        while (await anext(snapshots)).revision < newest:
            seen += 1
        # What the connection itself holds is the only backlog.
        assert seen < 70


async def test_odd_numbers_are_refused(deck: Deck) -> None:
    async with deck.operator() as operator:
        for call in (
            anext(aiter(operator.watch(-1.0))),
            anext(aiter(operator.watch(float("nan")))),
            anext(aiter(operator.drain("tiny-1", timeout_s=-1.0))),
            anext(aiter(operator.shutdown(float("inf")))),
        ):
            with pytest.raises(InvalidRequest):
                await call
        assert not (await operator.get_snapshot()).workers[0].cordoned


async def test_logs_end_with_what_was_asked_for_and_follow(deck: Deck) -> None:
    path = deck.home / "logs" / "worker-old-7.log"  # of a worker that is no more
    path.write_text("".join(f"line {number}\n" for number in range(500)))
    async with deck.operator() as operator:
        tail = b"".join([part async for part in operator.logs("old-7", tail_lines=3)])
        assert tail == b"line 497\nline 498\nline 499\n"
        default = b"".join([part async for part in operator.logs("worker/old-7")])
        assert default.count(b"\n") == 200
        assert b"control_plane_started" in b"".join([part async for part in operator.logs("control-plane")])
        assert b'"component": "gateway"' in b"".join([part async for part in operator.logs("gateway")])
        assert b'"component": "worker"' in b"".join([part async for part in operator.logs("tiny-1")])

        async with contextlib.aclosing(operator.logs("old-7", tail_lines=1, follow=True)) as logs:  # type: ignore[type-var]
            parts = aiter(logs)
            assert await anext(parts) == b"line 499\n"
            with path.open("a") as file:
                file.write("line 500\n")
            assert await anext(parts) == b"line 500\n"
    path.unlink()


async def test_events_since_and_follow(deck: Deck) -> None:
    async with deck.operator() as operator:
        every = [event async for event in operator.events()]
        assert [event.seq for event in every] == list(range(1, len(every) + 1))
        assert every[0].kind == "control_plane_started"
        assert [event async for event in operator.events(every[-2].seq)] == every[-1:]
        async with contextlib.aclosing(operator.events(every[-1].seq, follow=True)) as followed:  # type: ignore[type-var]
            coming = asyncio.ensure_future(anext(aiter(followed)))
            await operator.cordon("tiny-1")
            event = await coming
            assert (event.seq, event.kind, event.subject) == (every[-1].seq + 1, "worker_cordoned", "worker/tiny-1")
        await operator.uncordon("tiny-1")
        stored = await operator.get_snapshot()
        assert stored.events[-1].kind == "worker_uncordoned"
