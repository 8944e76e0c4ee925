"""HTTPS on real sockets: who gets through a handshake, what a handshake may cost, and a certificate that changes."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from control_plane.trust.authority import replace
from control_plane.trust.keyring import Keyring
from tests.integration.gateway.rig import KEY, MODEL, Https, Rig, chat_body, gateway, https, request, say
from tests.unit.gateway.fakes import until


@pytest.fixture(autouse=True)
def secure(tmp_path: Path) -> Iterator[Https]:
    keyring = Keyring(tmp_path / "tls")
    keyring.make_server(["127.0.0.1"])
    made = Https(keyring)
    token = https.set(made)
    yield made
    https.reset(token)


def shake(rig: Rig, context: ssl.SSLContext, host: str = "127.0.0.1") -> ssl.SSLSocket:
    """A client's handshake, blocking."""
    raw = socket.create_connection(("127.0.0.1", rig.gateway.port), timeout=20)
    return context.wrap_socket(raw, server_hostname=host)


def handshakes(rig: Rig) -> int:
    assert rig.gateway._listener is not None
    assert rig.gateway._listener.handshakes is not None
    return len(rig.gateway._listener.handshakes)


async def test_the_openai_client_with_the_authority_as_its_bundle(rig: Rig, secure: Https) -> None:
    assert rig.gateway.url.startswith("https://")
    async with (
        httpx.AsyncClient(verify=secure.client()) as http,
        openai.AsyncOpenAI(base_url=f"{rig.gateway.url}/v1", api_key=KEY, max_retries=0, http_client=http) as client,
    ):
        whole = await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hi"}])
        assert whole.choices[0].message.content == " word" * 8
        text = ""
        async for event in await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "hi"}], stream=True
        ):
            text += event.choices[0].delta.content or ""
        assert text == " word" * 8


async def test_a_client_that_does_not_know_the_authority_refuses_us_and_nobody_is_hurt(rig: Rig) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.to_thread(shake, rig, ssl.create_default_context())
    assert (await rig.chat()).status == 200


async def test_the_certificate_is_for_the_names_that_were_asked_for(rig: Rig, secure: Https) -> None:
    (await asyncio.to_thread(shake, rig, secure.client(), "localhost")).close()
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.to_thread(shake, rig, secure.client(), "example.com")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
async def test_tls_1_2_or_later_and_http_1_1(rig: Rig, secure: Https) -> None:
    context = secure.client()
    context.set_alpn_protocols(["h2", "http/1.1"])
    client = await asyncio.to_thread(shake, rig, context)
    assert (client.version(), client.selected_alpn_protocol()) == ("TLSv1.3", "http/1.1")
    client.close()
    old = secure.client()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    client = await asyncio.to_thread(shake, rig, old)
    assert client.version() == "TLSv1.2"
    client.close()
    older = secure.client()
    older.set_ciphers("DEFAULT@SECLEVEL=0")
    older.minimum_version = ssl.TLSVersion.TLSv1
    older.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.to_thread(shake, rig, older)


async def test_plain_http_on_the_https_port_is_dropped(rig: Rig) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.gateway.port)
    writer.write(request("/health", method="GET"))
    async with asyncio.timeout(20):
        assert b"HTTP/1.1 200" not in await _rest(reader)
    writer.close()
    assert (await rig.get("/health")).status == 200


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def test_silent_and_trickling_handshakes_are_bounded_in_time() -> None:
    """SE07: sockets that say nothing, or a byte now and then, are gone when a handshake's time is up."""
    async with gateway(handshake_s=0.5) as rig:
        silent = await asyncio.open_connection("127.0.0.1", rig.gateway.port)
        trickling = await asyncio.open_connection("127.0.0.1", rig.gateway.port)
        hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"

        async def trickle() -> None:
            for byte in hello * 100:
                trickling[1].write(bytes((byte,)))
                await asyncio.sleep(0.05)

        task = asyncio.create_task(trickle())
        async with asyncio.timeout(20):
            assert await _rest(silent[0]) == b""
            await _rest(trickling[0])
        task.cancel()
        await until(lambda: handshakes(rig) == 0)
        for _, writer in (silent, trickling):
            writer.close()


async def test_a_crowd_of_silent_sockets_does_not_keep_honest_clients_out() -> None:
    """SE07: the oldest handshake makes way, and no connection is spent on those that are not done."""
    async with gateway(handshakes=20, connections=10) as rig:
        crowd = [await asyncio.open_connection("127.0.0.1", rig.gateway.port) for _ in range(300)]
        await until(lambda: handshakes(rig) == 20)
        for _ in range(5):
            client = await rig.connect()
            client.send(request("/health", method="GET", connection="close"))
            assert (await client.answer()).status == 200
        assert handshakes(rig) <= 20
        for _, writer in crowd:
            writer.close()


async def test_a_refused_body_that_still_comes_does_not_destroy_its_answer(rig: Rig) -> None:
    """A client that sends on hears why it is refused, also where the connection cannot be closed on one side alone."""
    client = await rig.connect()
    client.send(request(body=b"x" * 100_000, content_length="100000000"))
    for _ in range(40):
        client.send(b"x" * 65_536)
        await asyncio.sleep(0)
    answer = await client.answer()
    assert (answer.status, answer.headers["connection"]) == (413, "close")


async def test_a_slow_reader_gets_everything_and_then_the_end(secure: Https) -> None:
    async with gateway(stall_s=1.0, linger_s=0.2) as rig:
        rig.router.play = None

        def read_slowly() -> int:
            client = shake(rig, secure.client())
            client.sendall(request(body=chat_body(), connection="close"))
            size = 0
            for turn in range(10_000_000):
                piece = client.recv(65_536)
                if not piece:
                    break
                size += len(piece)
                if turn < 30:
                    waiting.wait(0.1)
            client.close()
            return size

        waiting = threading.Event()
        reading = asyncio.create_task(asyncio.to_thread(read_slowly))
        say(await rig.call(), ["x" * 20_000_000])
        assert await reading > 20_000_000


async def test_a_client_that_does_not_close_is_closed(secure: Https) -> None:
    """Our goodbye in TLS wants one back; a client that gives none is not waited for."""
    async with gateway(linger_s=0.2) as rig:
        client = await asyncio.to_thread(shake, rig, secure.client())
        client.sendall(request("/health", method="GET", connection="close"))
        await until(lambda: rig.gateway.stats().requests_total == 1)
        assert rig.gateway._listener is not None
        connections = rig.gateway._listener.connections
        await until(lambda: not connections, 20.0)
        client.close()


async def test_a_client_that_half_closes_and_reads_nothing_is_dropped(secure: Https) -> None:
    """Nobody tells of a FIN below TLS while there is something to send."""
    async with gateway() as rig:
        rig.router.play = None
        client = await asyncio.to_thread(shake, rig, secure.client())
        client.sendall(request(body=chat_body()))
        say(await rig.call(), ["x" * 20_000_000])
        assert rig.gateway._listener is not None
        connections = rig.gateway._listener.connections
        await asyncio.sleep(0.2)
        with socket.socket(fileno=client.detach()) as raw:
            raw.shutdown(socket.SHUT_WR)
            await until(lambda: not connections, 20.0)


async def test_a_new_certificate_is_used_without_a_restart_and_without_a_failed_call(rig: Rig, secure: Https) -> None:
    """Open connections go on, new handshakes get the new one, while calls come all the time."""
    before = await serial(rig, secure)
    kept = await rig.connect()
    statuses: list[int] = []
    done = asyncio.Event()

    async def caller() -> None:
        while not done.is_set():
            async with httpx.AsyncClient(verify=secure.client(), headers={"authorization": f"Bearer {KEY}"}) as http:
                for _ in range(3):
                    answer = await http.post(f"{rig.gateway.url}/v1/chat/completions", json=chat_body())
                    statuses.append(answer.status_code)

    callers = [asyncio.create_task(caller()) for _ in range(4)]
    secure.keyring.renew(all_of_them=True)
    async with asyncio.timeout(30):
        while await serial(rig, secure) == before:
            pass
    kept.send(request("/health", method="GET"))
    assert (await kept.answer()).status == 200
    done.set()
    await asyncio.gather(*callers)
    assert statuses
    assert set(statuses) == {200}


@pytest.mark.parametrize("broken", ["empty", "half", "expired", "other key"])
async def test_a_broken_new_certificate_leaves_the_old_one(
    rig: Rig, secure: Https, broken: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = await serial(rig, secure)
    path, good = secure.keyring.server, secure.keyring.server.read_bytes()
    other = Keyring(tmp_path / "other")
    caplog.set_level("INFO")
    if broken == "empty":
        replace(path, b"", 0o600)
    elif broken == "half":
        replace(path, good[: len(good) // 2], 0o600)
    elif broken == "expired":
        authority = secure.keyring._ca()
        replace(path, authority.issue("x", ["127.0.0.1"], dt.timedelta(seconds=-60), server=True, client=False), 0o600)
    else:
        key = other.make_server(["127.0.0.1"]).read_bytes().partition(b"-----BEGIN CERTIFICATE")[0]
        replace(path, key + good[good.index(b"-----BEGIN CERTIFICATE") :], 0o600)
    await until(lambda: "the new certificate is not used" in caplog.text, 20.0)
    assert await serial(rig, secure) == before
    replace(path, good, 0o600)
    await until(lambda: "a new certificate is in use" in caplog.text, 20.0)


async def serial(rig: Rig, secure: Https) -> str:
    client = await asyncio.to_thread(shake, rig, secure.client())
    found = client.getpeercert()
    client.close()
    assert found is not None
    return str(found["serialNumber"])
