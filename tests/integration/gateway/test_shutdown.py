"""The end of a gateway: whoever is being served is served, and whoever cannot be hears so."""

from __future__ import annotations

import asyncio
import socket

import pytest
from prometheus_client import CollectorRegistry

from control_plane.contracts.errors import DropReason, SettingsError, Unavailable
from control_plane.contracts.worker import Delta
from control_plane.gateway.options import GatewayOptions
from control_plane.gateway.server import Gateway
from tests.integration.gateway.rig import Keys, chat_body, events, gateway, joined, request, say
from tests.unit.gateway.fakes import until


async def test_what_runs_ends_in_peace_and_nothing_new_begins() -> None:
    async with gateway() as rig:
        rig.router.play = None
        busy, idle = await rig.connect(), await rig.connect()
        busy.send(request(body=chat_body(stream=True)))
        submitted = await rig.call()
        submitted.sink.delta(Delta(1, [5], "a"))
        rig.stop.set()
        assert await idle.ended() == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", rig.gateway.port)
        say(submitted, ["b"])
        answer = await busy.answer()
        assert joined(answer.body) == "ab"
        assert events(answer.body)[-1] == "[DONE]"
        assert await busy.ended() == b""
        async with asyncio.timeout(20):
            await rig.served


async def test_what_does_not_end_in_time_is_told_so() -> None:
    async with gateway(grace_s=0.1) as rig:
        rig.router.play = None
        streaming, plain, waiting = [await rig.connect() for _ in range(3)]
        streaming.send(request(body=chat_body(stream=True)))
        (await rig.call()).sink.delta(Delta(1, [5], "a"))
        plain.send(request(body=chat_body()))
        waiting.send(request(body=chat_body(stream=True)))
        await rig.call(3)
        rig.stop.set()
        answer = await streaming.answer()
        assert joined(answer.body) == "a"
        assert events(answer.body)[-1]["error"]["code"] == "draining"
        for client in (plain, waiting):
            answer = await client.answer()
            assert (answer.status, answer.error["code"]) == (503, "draining")
            assert "retry-after" in answer.headers
        async with asyncio.timeout(20):
            await rig.served
        assert all(submitted.handle.cancelled == ["draining"] for submitted in rig.router.submitted)


async def test_a_call_whose_model_has_no_worker_does_not_keep_a_gateway_that_stops() -> None:
    async with gateway(grace_s=60.0) as rig:
        rig.router.bundles["cold"] = Unavailable("loading", reason=DropReason.MODEL_LOADING)
        client = await rig.connect()
        client.send(request(body=chat_body() | {"model": "cold"}))
        await until(lambda: "cold" in rig.router.asked)
        rig.stop.set()
        answer = await client.answer()
        assert (answer.status, answer.error["code"]) == (503, "draining")
        async with asyncio.timeout(20):
            await rig.served


async def test_a_gateway_that_stops_is_not_ready() -> None:
    async with gateway() as rig:
        rig.router.play = None
        client = await rig.connect()
        client.send(request(body=chat_body()) + request("/ready", method="GET", key=None))
        submitted = await rig.call()
        await until(lambda: rig.gateway.stats().ready)
        rig.stop.set()
        await until(lambda: not rig.gateway.stats().ready)
        say(submitted, ["x"])
        answer = await client.answer()
        assert answer.status == 200
        assert answer.headers["connection"] == "close"


async def test_a_taken_port_is_told_clearly() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(SettingsError) as caught:
            Gateway(GatewayOptions(port=port), Keys(), registry=CollectorRegistry())
    assert f"127.0.0.1:{port}" in caught.value.message
    assert "in use" in caught.value.message
    assert "port" in caught.value.hint


async def test_a_free_port_is_found_and_told() -> None:
    async with gateway() as rig:
        assert rig.gateway.url == f"http://127.0.0.1:{rig.gateway.port}"
        assert rig.gateway.port > 0


async def test_a_port_can_be_had_again_at_once() -> None:
    async with gateway() as rig:
        port = rig.gateway.port
        await rig.chat()
    again = Gateway(GatewayOptions(port=port), Keys(), registry=CollectorRegistry())
    assert again.port == port
    again.close()
