from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest

from console.client import OperatorClient
from console.home import Home, Target, Unreachable, read_key, target_for
from control_plane.contracts.errors import InvalidRequest, NotFound, Unauthenticated
from control_plane.contracts.fleet import RequestPhase, WorkerPhase
from tests.unit.console.conftest import write_state
from tests.unit.console.fake_operator import KEY, FakeOperator


async def test_a_snapshot_arrives_as_contract_values(operator: FakeOperator, home: Path) -> None:
    async with OperatorClient.open(home) as client:
        assert await client.get_snapshot(finished_requests=True) == operator.state
        assert [r.id for r in (await client.get_snapshot()).requests] == ["req-1", "req-2"]


async def test_watch_tells_each_change_and_ends_with_the_server(operator: FakeOperator, home: Path) -> None:
    async with OperatorClient.open(home) as client, contextlib.aclosing(client.watch()) as snapshots:
        assert (await anext(snapshots)).workers[0].phase is WorkerPhase.READY
        await client.cordon("smollm2-1")
        async with asyncio.timeout(10):
            async for snapshot in snapshots:
                if snapshot.workers[0].cordoned:
                    break


async def test_actions_drain_logs_events_and_shutdown(operator: FakeOperator, home: Path) -> None:
    async with OperatorClient.open(home) as client:
        assert (await client.cordon("smollm2-1", dry_run=True)).changed
        assert operator.calls == []
        assert not (await client.uncordon("smollm2-1")).changed
        assert [p.in_flight async for p in client.drain("smollm2-1", timeout_s=3)] == [4, 2, 0]
        assert (await client.scale("smollm2", 3)).message == "pool/smollm2 scaled from 2 to 3"
        assert (await client.cancel("req-1")).affected == ("req-1",)
        assert b"".join([piece async for piece in client.logs("g1", tail_lines=1)]) == b"two\n"
        assert [event.seq async for event in client.events(1)] == [2]
        assert [p.done async for p in client.shutdown(5)] == [False, True]
    assert operator.calls == ["drain smollm2-1 3", "scale smollm2 3", "cancel req-1", "shutdown 5"]


async def test_errors_keep_their_kind(operator: FakeOperator, home: Path) -> None:
    async with OperatorClient.open(home) as client:
        with pytest.raises(NotFound, match="no worker named nope"):
            await client.cordon("nope")
        with pytest.raises(NotFound, match="no log named nope"):
            await anext(client.logs("nope"))
    wrong = home / "wrong.key"
    wrong.write_text("op-inferdeck-wrong")
    async with OperatorClient.open(home, operator_key_file=str(wrong)) as client:
        with pytest.raises(Unauthenticated):
            await client.get_snapshot()
        with pytest.raises(Unauthenticated):
            await anext(client.watch())


async def test_a_closed_port_is_unreachable_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    began = time.monotonic()
    async with OperatorClient(Target(address, KEY, "test")) as client:
        with pytest.raises(Unreachable, match=f"cannot reach the control plane at {address}: connection refused"):
            await client.get_snapshot()
        with pytest.raises(Unreachable):
            await anext(client.watch())
    assert time.monotonic() - began < 30


async def test_a_host_that_takes_connections_and_says_nothing_is_given_up() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        target = Target(f"127.0.0.1:{silent.getsockname()[1]}", KEY, "test")
        async with OperatorClient(target) as client:
            with pytest.raises(Unreachable, match="no answer"):
                await anext(client.watch())


async def test_a_control_plane_that_stands_still_is_told_from_one_that_is_gone(home: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        write_state(home, f"127.0.0.1:{silent.getsockname()[1]}")
        async with OperatorClient.open(home) as client:
            with pytest.raises(Unreachable, match="no answer, though its process") as told:
                await client.get_snapshot()
    assert f"(pid {os.getpid()}) lives" in told.value.message
    assert told.value.hint == (
        f"gateways and workers serve on: kill -9 {os.getpid()}, then inferdeck up --home {home} takes them over; "
        f"inferdeck down --home {home} ends all"
    )


async def test_a_proxy_in_the_environment_is_not_used(
    operator: FakeOperator, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with OperatorClient.open(home) as client:
        assert (await client.get_snapshot()).revision == 7


def test_a_home_without_a_platform_is_unreachable_with_the_command_that_helps(home: Path) -> None:
    with pytest.raises(Unreachable, match="no platform is running") as caught:
        Home.find(home).target()
    assert caught.value.hint == f"inferdeck up --home {home}"


def test_a_state_whose_process_is_gone_is_no_platform(home: Path) -> None:
    write_state(home, "127.0.0.1:1", pid=2**22 + 1)
    assert Home.find(home).state() is not None
    assert Home.find(home).running() is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"pid": 1}', '{"pid": "x", "gateway_urls": 3}'])
def test_an_unreadable_state_is_no_platform(home: Path, text: str) -> None:
    (home / "state.json").write_text(text)
    assert Home.find(home).running() is None


def test_the_home_is_the_named_one_then_the_variable_then_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Home.find().path == Path.home() / ".inferdeck"
    monkeypatch.setenv("INFERDECK_HOME", str(tmp_path / "a"))
    assert Home.find().path == tmp_path / "a"
    assert Home.find(tmp_path / "b").path == tmp_path / "b"


@pytest.mark.parametrize("server", ["", "host", ":1", "host:", "host:0", "host:70000", "host:x", "http://host"])
def test_a_server_that_is_no_address_is_refused(home: Path, server: str) -> None:
    with pytest.raises(InvalidRequest, match="is not HOST:PORT"):
        target_for(Home(home), server)


@pytest.mark.parametrize("text", ["", "\n", "two words", "tab\there", "é", "k" * 4097])
def test_a_file_that_holds_no_key_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    with pytest.raises(Unauthenticated, match="does not hold a key") as caught:
        read_key(path)
    assert not text.strip() or text.strip() not in caught.value.message


def test_a_missing_key_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unauthenticated, match="No such file"):
        read_key(tmp_path / "none")


def test_a_target_never_shows_its_key() -> None:
    assert KEY not in repr(Target("127.0.0.1:1", KEY, "here"))


async def test_what_has_ended_is_read_once_and_what_runs_every_time(operator: FakeOperator, home: Path) -> None:
    async with OperatorClient.open(home) as client, contextlib.aclosing(client.watch(finished_requests=True)) as stream:
        first = await anext(stream)
        assert first == operator.state
        longer = replace(operator.state.requests[0], output_tokens=200)
        over = replace(operator.state.requests[1], phase=RequestPhase.FAILED, reason="worker_lost", duration_s=4.0)
        operator.update(requests=(longer, over, operator.state.requests[2]))
        async with asyncio.timeout(10):
            while (second := await anext(stream)).revision == first.revision:
                pass
        assert second == operator.state
        assert second.requests[2] is first.requests[2]
