"""From nothing to serving, and back to nothing."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from control_plane.contracts.fleet import WorkerPhase
from control_plane.contracts.worker_spec import start_ticks
from tests.integration.fleet.rig import Deck, alive, contents, everything_ready

MakeDeck = Callable[..., Deck]


def listening() -> set[int]:
    """Ports on which anybody listens on this machine."""
    rows = [row for name in ("tcp", "tcp6") for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    fields = [row.split() for row in rows]
    return {int(row[1].split(":")[1], 16) for row in fields if row[3] == "0A"}


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


async def test_it_serves_says_where_and_leaves_nothing(make_deck: MakeDeck) -> None:
    deck = make_deck(replicas=2)
    snapshot = await deck.start()
    assert [(view.id, view.phase) for view in snapshot.workers] == [
        ("tiny-1", WorkerPhase.READY),
        ("tiny-2", WorkerPhase.READY),
    ]
    state = deck.state()
    assert deck.process is not None
    assert state["pid"] == deck.process.pid
    assert state["start_ticks"] == start_ticks(state["pid"])
    assert state["control_plane_id"] == snapshot.control_plane_id
    assert state["gateway_urls"] == [snapshot.gateways[0].url]
    assert state["config"] == str(deck.config)
    for name in ("api.key", "operator.key", "state.json", "inferdeck.db", "inferdeck.db-wal", "logs/control-plane.log"):
        assert (deck.home / name).stat().st_mode & 0o777 == 0o600
    assert deck.home.stat().st_mode & 0o777 == 0o700

    events = await deck.stream(tokens=5)
    assert contents(events) == 5
    assert events[-1] == {"end": True}

    ports = {port_of(view.address) for view in snapshot.workers} | {port_of(snapshot.gateways[0].url)}
    ports.add(port_of(state["api_address"]))
    assert ports <= listening()
    assert await deck.stop() == 0
    assert not [pid for pid in deck.seen_pids if alive(pid)]
    assert not ports & listening()
    assert not (deck.home / "state.json").exists()
    assert [path.name for path in (deck.home / "run").rglob("*") if path.is_file()] == []
    assert [path.name for path in deck.home.rglob(".*")] == []
    assert deck.said == ""


async def test_keys_outlive_the_platform_and_are_nowhere_else(make_deck: MakeDeck) -> None:
    deck = make_deck()
    await deck.start()
    key = (deck.home / "api.key").read_text()
    operator_key = (deck.home / "operator.key").read_text()
    assert await deck.stop() == 0
    await deck.start()
    assert (deck.home / "api.key").read_text() == key
    assert contents(await deck.stream(tokens=2)) == 2
    assert await deck.stop() == 0
    for path in deck.home.rglob("*"):
        if path.is_file() and path.suffix != ".key":
            content = path.read_bytes()
            assert key.strip().encode() not in content, path
            assert operator_key.strip().encode() not in content, path


async def test_the_death_of_whoever_holds_the_pipe_ends_everything(make_deck: MakeDeck) -> None:
    deck = make_deck()
    read_end, write_end = os.pipe()
    deck.spawn("--parent-fd", str(read_end), pass_fds=(read_end,))
    os.close(read_end)
    await deck.until(everything_ready)
    os.close(write_end)
    assert await deck.ended() == 0
    assert not [pid for pid in deck.seen_pids if alive(pid)]


async def test_it_can_be_stopped_while_it_starts(make_deck: MakeDeck) -> None:
    deck = make_deck(replicas=3)
    await deck.start(ready=False)
    assert await deck.stop() == 0
    assert not [pid for pid in deck.seen_pids if alive(pid)]
    assert [path.name for path in (deck.home / "run").rglob("*") if path.is_file()] == []


async def test_a_second_control_plane_of_a_home_is_refused(make_deck: MakeDeck) -> None:
    deck = make_deck()
    await deck.start()
    assert deck.process is not None
    second = deck.refused()
    assert second.returncode == 1
    assert f"runs in {deck.home} already: process {deck.process.pid}" in second.stderr
    assert "hint: inferdeck down" in second.stderr
    assert deck.state()["pid"] == deck.process.pid
    assert contents(await deck.stream(tokens=2)) == 2
    assert await deck.stop() == 0


async def test_a_taken_port_is_told_with_the_setting_and_the_holder(make_deck: MakeDeck) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        for section in ("gateway", "api"):
            other = "api" if section == "gateway" else "gateway"
            deck = make_deck(config=f"[{section}]\nport = {port}\n[{other}]\nport = 0\n[[pool]]\nengine = 'scripted'\n")
            result = deck.refused()
            assert result.returncode == 1
            assert f"error: {section}.port {port} on 127.0.0.1 is taken by process {os.getpid()}" in result.stderr
            assert f"hint: set port in [{section}] of {deck.config}" in result.stderr
            assert not (deck.home / "state.json").exists()
            assert [path.name for path in (deck.home / "run").rglob("*") if path.is_file()] == []


async def test_wrong_settings_end_it_before_anything_is_made(make_deck: MakeDeck) -> None:
    deck = make_deck(config="[gateway]\nprot = 1\n")
    result = deck.refused()
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {deck.config}:2: gateway.prot: unknown key; did you mean port?")
    assert not deck.home.exists()
