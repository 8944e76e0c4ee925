"""A whole platform with HTTPS outside and mutual TLS inside, and strangers at every port of it."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from console.cli.exits import AUTH, UNREACHABLE, code_of
from console.client import OperatorClient
from console.home import Distrusted, Target, Unreachable, target_for
from console.home import Home as ConsoleHome
from control_plane.contracts.errors import Forbidden, Unauthenticated
from control_plane.contracts.identity import Credentials, Peer, client_context
from control_plane.contracts.v1 import operator_pb2, operator_pb2_grpc, worker_pb2, worker_pb2_grpc
from control_plane.contracts.wire.secure import open_channel
from control_plane.contracts.worker_spec import WorkerSpec
from control_plane.fleet.worker_client import WorkerClient
from control_plane.trust.certificate import CertificateFacts
from control_plane.trust.keyring import Keyring
from tests.integration.fleet.rig import CONFIG, Deck, contents, kinds
from tests.unit.console.fake_operator import KEY, FakeOperator, serve

SECURE = CONFIG.replace("[api]", 'tls = "local"\n[security]\nmutual_tls = true\n[api]')


@pytest.fixture(scope="module")
def deck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deck]:
    shared = Deck(tmp_path_factory.mktemp("secure"), replicas=2, config=SECURE)
    try:
        asyncio.run(shared.start())
        yield shared
        assert asyncio.run(shared.stop()) == 0
    finally:
        shared.clean_up()


@pytest.fixture
def keyring(deck: Deck) -> Keyring:
    return Keyring(deck.home / "tls")


def worker_address(deck: Deck, worker_id: str = "tiny-1") -> str:
    return str(json.loads((deck.home / "run" / "workers" / f"{worker_id}.json").read_text())["address"])


def ports(deck: Deck) -> dict[str, tuple[str, Peer]]:
    """Every gRPC port of the platform, and who listens there."""
    return {
        "api": (deck.state()["api_address"], Peer.CONTROL_PLANE),
        "worker": (worker_address(deck), Peer.WORKER),
    }


async def test_calls_go_through_every_hop(deck: Deck) -> None:
    assert deck.url.startswith("https://")
    assert contents(await deck.stream(6)) == 6
    async with deck.client() as client:
        snapshot = await client.get_snapshot()
    assert [worker.reason for worker in snapshot.workers] == ["", ""]


async def test_one_request_id_from_the_caller_to_the_engine_and_back(deck: Deck) -> None:
    """In, out and through every hop: the response, the router's view, the worker's own list, the events."""
    name = "order-4711.a:b"
    script = json.dumps({"script": {"tokens": 400, "delay_s": 0.02}})
    body = {"model": "tiny", "messages": [{"role": "user", "content": script}], "stream": True, "max_tokens": 400}
    async with (
        deck.caller() as http,
        http.stream("POST", "/v1/chat/completions", json=body, headers={"x-request-id": name}) as response,
    ):
        assert response.headers["x-request-id"] == name
        lines = response.aiter_lines()
        assert json.loads((await anext(lines)).removeprefix("data: "))["id"] == f"chatcmpl-{name}"
        snapshot = await deck.until(lambda found: any(view.id == name for view in found.requests))
        view = next(view for view in snapshot.requests if view.id == name)
        own = str(Keyring(deck.home / "tls").peer(Peer.CONTROL_PLANE))
        engine = WorkerClient(worker_address(deck, view.worker_id), own)
        try:
            assert name in [request.request_id for request in await engine.requests()]
        finally:
            await engine.close()
        async with deck.client() as client:
            assert name in (await client.cancel(name)).message
    snapshot = await deck.until(lambda found: any(event.subject == f"request/{name}" for event in found.events))


@pytest.mark.parametrize("port", ["api", "worker"])
@pytest.mark.parametrize("stranger", ["plaintext", "no certificate", "other authority", "expired", "https server's"])
async def test_strangers_are_refused(deck: Deck, keyring: Keyring, port: str, stranger: str, tmp_path: Path) -> None:
    """SE03: no way in without a certificate of this home's authority that is good now."""
    address, peer = ports(deck)[port]
    channel = _strange_channel(keyring, address, peer, stranger, tmp_path)
    async with channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await _health(channel)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def _strange_channel(keyring: Keyring, address: str, peer: Peer, stranger: str, folder: Path) -> grpc.aio.Channel:
    if stranger == "plaintext":
        return grpc.aio.insecure_channel(address)
    options = (("grpc.ssl_target_name_override", peer.host),)
    root = keyring.ca.read_bytes()
    if stranger == "no certificate":
        return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(root), options)
    if stranger == "other authority":
        own = Credentials.read(Keyring(folder / "other").ensure_peer(Peer.GATEWAY, "g1"))
    elif stranger == "expired":
        old = keyring._ca().issue("x", [Peer.GATEWAY.host], dt.timedelta(minutes=-1), server=True, client=True)
        (folder / "old.pem").write_bytes(old)
        own = Credentials.read(folder / "old.pem")
    else:
        own = Credentials.read(keyring.server)
    return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(root, own.key, own.certificate), options)


async def _health(channel: grpc.aio.Channel) -> Any:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    return await stub.Check(health_pb2.HealthCheckRequest(), timeout=10)


@asynccontextmanager
async def calling(address: str, credentials: Path, peer: Peer) -> AsyncIterator[grpc.aio.Channel]:
    async with open_channel(address, credentials, peer) as channel:
        yield channel


@pytest.mark.parametrize("peer", list(Peer))
async def test_a_peer_opens_what_it_is_for(deck: Deck, keyring: Keyring, peer: Peer) -> None:
    """SE03: a worker's certificate opens no operators' API, an operator's no worker, and so on; keys count beside."""
    name = {Peer.GATEWAY: "g1", Peer.WORKER: "tiny-1"}.get(peer, "")
    credentials = keyring.ensure_peer(peer, name)
    metadata = (("authorization", f"Bearer {(deck.home / 'operator.key').read_text().strip()}"),)

    async def code(call: Any) -> grpc.StatusCode:
        try:
            async with asyncio.timeout(10):
                await call
        except grpc.aio.AioRpcError as error:
            return error.code()
        return grpc.StatusCode.OK

    async with calling(deck.state()["api_address"], credentials, Peer.CONTROL_PLANE) as channel:
        operator: Any = operator_pb2_grpc.OperatorStub(channel)
        fleet: Any = operator_pb2_grpc.FleetStub(channel)
        reflection: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        looked = await code(operator.GetSnapshot(operator_pb2.GetSnapshotRequest(), metadata=metadata))
        followed = await code(operator.Events(operator_pb2.EventsRequest(), metadata=metadata).read())
        joined = await code(fleet.Join(iter([operator_pb2.RouterReport()]), metadata=metadata).read())
        asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        reflected = await code(reflection.ServerReflectionInfo(asked, metadata=metadata).read())
        await _health(channel)
    denied, fine = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.OK
    operates = fine if peer is Peer.OPERATOR else denied
    assert (looked, followed, reflected) == (operates, operates, operates)
    # Gateways and routers get as far as being asked who they are.
    assert joined == (grpc.StatusCode.INVALID_ARGUMENT if peer in (Peer.GATEWAY, Peer.ROUTER) else denied)
    expected = fine if peer in (Peer.GATEWAY, Peer.ROUTER, Peer.CONTROL_PLANE) else denied
    async with calling(worker_address(deck), credentials, Peer.WORKER) as channel:
        worker: Any = worker_pb2_grpc.WorkerStub(channel)
        told = await code(worker.GetInfo(worker_pb2.GetInfoRequest()))
        watched = await code(worker.WatchLoad(worker_pb2.WatchLoadRequest()).read())
        served = await code(worker.Serve(iter([worker_pb2.RouterFrame()])).read())
        await _health(channel)
    assert (told, watched, served) == (expected, expected, expected)


async def test_a_certificate_replaces_no_key(deck: Deck, keyring: Keyring) -> None:
    address, operator = deck.state()["api_address"], str(keyring.peer(Peer.OPERATOR))
    async with OperatorClient(Target(address, "wrong", "test", operator)) as client:
        with pytest.raises(Unauthenticated):
            await client.get_snapshot()
    caller = (deck.home / "api.key").read_text().strip()
    async with OperatorClient(Target(address, caller, "test", operator)) as client:
        with pytest.raises(Forbidden):
            await client.get_snapshot()


async def test_an_operator_elsewhere_has_one_file(deck: Deck, keyring: Keyring, tmp_path: Path) -> None:
    """What ``inferdeck cert client`` makes, with ``--server``, ``--operator-key-file`` and ``--operator-cert-file``."""
    certificate = keyring.make_client(tmp_path / "anna.pem", "anna", 1)
    elsewhere = ConsoleHome(tmp_path / "none")
    key_file = str(deck.home / "operator.key")
    target = target_for(elsewhere, deck.state()["api_address"], key_file, str(certificate))
    async with OperatorClient(target) as client:
        assert (await client.get_snapshot()).pools
    async with OperatorClient(target_for(elsewhere, deck.state()["api_address"], key_file)) as client:
        with pytest.raises(Distrusted):
            await client.get_snapshot()


def _credentials(keyring: Keyring, kind: str, folder: Path) -> str:
    """A file for ``--operator-cert-file`` with which something is wrong."""
    file = folder / f"{kind.replace(' ', '-')}.pem"
    if kind == "no certificate":
        return ""
    if kind == "another platform's":
        return str(Keyring(folder / "other").make_client(file, "anna", 1))
    if kind == "expired":
        own = [Peer.OPERATOR.host]
        file.write_bytes(keyring._ca().issue("x", own, dt.timedelta(minutes=-1), server=False, client=True))
    elif kind == "signed by another":
        stranger = Credentials.read(Keyring(folder / "other").make_client(folder / "s.pem", "anna", 1))
        file.write_bytes(stranger.key + stranger.certificate + keyring.ca.read_bytes())
    elif kind == "a worker's":
        return str(keyring.peer(Peer.WORKER, "tiny-1"))
    return str(file)


@pytest.mark.parametrize(
    ("kind", "said", "hint"),
    [
        ("no certificate", "speaks mutual TLS, and no certificate was named", "inferdeck cert client NAME --out FILE"),
        ("another platform's", "has a certificate of another authority than that in", "inferdeck cert client NAME"),
        ("expired", "expired.pem expired on 20", "inferdeck cert client NAME --out FILE"),
        ("signed by another", "refuses the certificate in", "inferdeck cert client NAME --out FILE"),
        ("a worker's", "is for: operator; not for: worker", "inferdeck cert client NAME --out FILE"),
    ],
)
async def test_each_way_not_to_be_trusted_is_told_by_its_name(
    deck: Deck, keyring: Keyring, kind: str, said: str, hint: str, tmp_path: Path
) -> None:
    address = deck.state()["api_address"]
    target = Target(address, "op-inferdeck-x", address, _credentials(keyring, kind, tmp_path))
    for call in (lambda client: client.get_snapshot(), lambda client: anext(client.watch())):
        async with OperatorClient(target) as client:
            with pytest.raises((Distrusted, Forbidden)) as caught:
                await call(client)
        assert said in caught.value.message
        assert caught.value.hint.startswith(hint)
        assert code_of(caught.value) == AUTH


async def test_the_home_s_own_certificate_is_renewed_at_home(deck: Deck, keyring: Keyring, tmp_path: Path) -> None:
    address = deck.state()["api_address"]
    credentials = _credentials(keyring, "expired", tmp_path)
    own = Target(address, "op-inferdeck-x", "~/.inferdeck", credentials, ConsoleHome(deck.home))
    async with OperatorClient(own) as client:
        with pytest.raises(Distrusted) as caught:
            await client.get_snapshot()
    assert caught.value.hint == "inferdeck cert renew"


async def test_a_certificate_where_no_tls_is_spoken(keyring: Keyring) -> None:
    server, address = serve(FakeOperator())
    try:
        async with OperatorClient(Target(address, KEY, address, str(keyring.peer(Peer.OPERATOR)))) as client:
            with pytest.raises(Distrusted, match="speaks no TLS, and a certificate was named") as caught:
                await client.get_snapshot()
    finally:
        server.stop(None).wait()
    assert "leave --operator-cert-file out" in caught.value.hint


async def test_another_process_than_was_asked_for(deck: Deck, keyring: Keyring) -> None:
    """The gateway's HTTPS, and a port where nobody is."""
    credentials = str(keyring.peer(Peer.OPERATOR))
    address = deck.url.removeprefix("https://")
    async with OperatorClient(Target(address, KEY, address, credentials)) as client:
        with pytest.raises(Distrusted, match="another process than a control plane answers"):
            await client.get_snapshot()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        closed = f"127.0.0.1:{listening.getsockname()[1]}"
    async with OperatorClient(Target(closed, KEY, closed, credentials)) as client:
        with pytest.raises(Unreachable) as caught:
            await client.get_snapshot()
    assert not isinstance(caught.value, Distrusted)
    assert code_of(caught.value) == UNREACHABLE
    assert caught.value.hint == "--server HOST:PORT; on its own machine inferdeck up says where it is"


async def test_a_worker_that_is_none_gets_no_calls(deck: Deck, keyring: Keyring) -> None:
    """The router wants a worker's certificate, with h2, before it says a word."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(keyring.peer(Peer.OPERATOR))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def answer() -> None:
            accepted, _ = listening.accept()
            with accepted, pytest.raises((ssl.SSLError, ConnectionError)):
                server.wrap_socket(accepted, server_side=True).recv(1)

        answering = asyncio.create_task(asyncio.to_thread(answer))
        context = client_context(keyring.peer(Peer.GATEWAY, "g1"))
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=Peer.WORKER.host)
        await answering


async def test_credentials_are_renewed_while_streams_go_on(make_deck: Callable[..., Deck]) -> None:
    """New ones count for whoever connects next: nothing that is open ends, and what breaks comes back with them."""
    deck = make_deck(replicas=1, config=SECURE)
    await deck.start()
    keyring = Keyring(deck.home / "tls")
    running = asyncio.create_task(deck.stream(200, 0.02))
    await deck.until(lambda snapshot: bool(snapshot.requests))
    before = {path.name: CertificateFacts.read(path).serial for path in (keyring.folder / "peers").glob("*.pem")}
    await asyncio.to_thread(keyring.renew, all_of_them=True)
    after = {path.name: CertificateFacts.read(path).serial for path in (keyring.folder / "peers").glob("*.pem")}
    assert {"control-plane.pem", "gateway-g1.pem", "operator.pem", "worker-tiny-1.pem"} <= set(before)
    assert not set(before.values()) & set(after.values())
    async with deck.client() as client:
        assert (await client.get_snapshot()).workers
    assert _serial_at(worker_address(deck), keyring) == after["worker-tiny-1.pem"]
    assert _serial_at(deck.state()["api_address"], keyring) == after["control-plane.pem"]
    assert contents(await running) == 200
    # The next control plane finds everyone again with what is there now.
    await deck.kill()
    assert contents(await deck.stream(3)) == 3
    snapshot = await deck.start()
    assert "worker_adopted" in kinds(snapshot, "worker/tiny-1")
    assert contents(await deck.stream(3)) == 3
    assert await deck.stop() == 0


def _serial_at(address: str, keyring: Keyring) -> int:
    """Of the certificate that is shown to somebody who connects now."""
    host, _, port = address.rpartition(":")
    context = client_context(keyring.peer(Peer.GATEWAY, "g1"))
    context.check_hostname = False
    with socket.create_connection((host, int(port)), timeout=10) as raw, context.wrap_socket(raw) as secure:
        found: Any = secure.getpeercert()
    return int(found["serialNumber"], 16)


async def test_the_switch_can_be_turned_under_running_workers(make_deck: Callable[..., Deck]) -> None:
    """A control plane with other settings replaces workers that speak otherwise; gateways that run on find both."""
    deck = make_deck(replicas=1)
    await deck.start()
    spec = deck.home / "run" / "workers" / "tiny-1.spec.json"
    assert WorkerSpec.load(spec).credentials == ""
    await deck.kill()
    deck.config.write_text(CONFIG.format(replicas=1).replace("[api]", "[security]\nmutual_tls = true\n[api]"))
    deck.spawn()
    await deck.until(
        lambda snapshot: (
            all(pool.ready == pool.desired for pool in snapshot.pools)
            and any(WorkerSpec.load(path).credentials for path in (deck.home / "run" / "workers").glob("*.spec.json"))
            and all(gateway.ready for gateway in snapshot.gateways)
        )
    )
    assert contents(await deck.stream(3)) == 3
    assert await deck.stop() == 0


def test_a_gateway_that_others_can_reach_does_not_start_in_the_clear(tmp_path: Path) -> None:
    deck = Deck(tmp_path, config=CONFIG.replace("port = 0", 'host = "0.0.0.0"\nport = 0', 1))
    ran = deck.refused()
    assert ran.returncode == 2
    assert f"error: {deck.config}:3: gateway.host: 0.0.0.0 can be reached by others" in ran.stderr
