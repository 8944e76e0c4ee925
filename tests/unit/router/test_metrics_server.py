"""``/metrics`` of a router that is a process of its own, over real sockets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry, Gauge

from control_plane.contracts.errors import SettingsError
from control_plane.contracts.fleet import GatewayStats
from control_plane.contracts.identity import Peer, client_context
from control_plane.router.metrics_server import MetricsServer
from control_plane.router.server_figures import ServerFigures
from control_plane.trust.keyring import Keyring


@asynccontextmanager
async def serving(credentials: str = "") -> AsyncIterator[MetricsServer]:
    registry = CollectorRegistry()
    Gauge("known_value", "what there is to read", registry=registry).set(7)
    server = MetricsServer(registry, credentials)
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.stop()


async def get(url: str, method: str = "GET", verify: ssl.SSLContext | bool = True) -> httpx.Response:
    async with httpx.AsyncClient(verify=verify, trust_env=False, timeout=20) as http:
        return await http.request(method, url)


async def test_it_is_what_prometheus_reads() -> None:
    async with serving() as server:
        assert server.url.startswith("http://127.0.0.1:")
        answer = await get(server.url)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert "known_value 7.0" in answer.text
        head = await get(server.url, "HEAD")
        assert (head.status_code, head.text) == (200, "")
        assert head.headers["content-length"] == answer.headers["content-length"]


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/", 404), ("POST", "/metrics", 405)])
async def test_there_is_nothing_else(method: str, path: str, status: int) -> None:
    async with serving() as server:
        answer = await get(server.url.removesuffix("/metrics") + path, method)
        assert answer.status_code == status
        assert "known_value" not in answer.text


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"\x16\x03\x01", b"A" * 40_000 + b"\r\n\r\n"])
async def test_what_is_no_request_gets_no_figures(sent: bytes) -> None:
    async with serving() as server:
        port = int(server.url.removesuffix("/metrics").rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        writer.write_eof()
        async with asyncio.timeout(20):
            said = await reader.read()
        assert b"known_value" not in said
        writer.close()
        assert (await get(server.url)).status_code == 200, "others are answered"


async def test_a_port_that_is_taken_is_said() -> None:
    async with serving() as server:
        port = int(server.url.removesuffix("/metrics").rpartition(":")[2])
        other = MetricsServer(CollectorRegistry())
        with pytest.raises(SettingsError, match="cannot listen") as caught:
            await other.start("127.0.0.1", port)
        assert caught.value.param == "router.metrics_port"
        assert other.url == ""


async def test_with_credentials_only_operators_read_it(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path / "tls")
    router, worker = (keyring.ensure_peer(peer, "x") for peer in (Peer.ROUTER, Peer.WORKER))
    operator = keyring.make_client(tmp_path / "prometheus.pem", "prometheus", 1.0)

    def shown(path: Path) -> ssl.SSLContext:
        context = client_context(path)
        context.check_hostname = False  # it is asked for by address here, and its name is router.inferdeck.internal
        context.set_alpn_protocols(["http/1.1"])
        return context

    async with serving(str(router)) as server:
        assert server.url.startswith("https://")
        assert "known_value" in (await get(server.url, verify=shown(operator))).text
        refused = await get(server.url, verify=shown(worker))
        assert (refused.status_code, "known_value" in refused.text) == (403, False)
        nobody = ssl.create_default_context(cafile=str(keyring.ca))
        nobody.check_hostname = False
        with pytest.raises((httpx.TransportError, ssl.SSLError)):
            await get(server.url, verify=nobody)


def test_what_a_router_counts() -> None:
    registry = CollectorRegistry()
    stats = GatewayStats(ready=True, in_flight=3, requests_total=9, output_tokens_total=70)
    registry.register(ServerFigures(lambda: stats, lambda: 2))
    told = {sample.name: sample.value for family in registry.collect() for sample in family.samples}
    assert told == {
        "inferdeck_router_in_flight": 3,
        "inferdeck_router_gateways": 2,
        "inferdeck_router_ready": 1,
        "inferdeck_router_calls_total": 9,
        "inferdeck_router_output_tokens_total": 70,
    }
