"""Routers as processes of their own, in a whole platform: killed, adopted, stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import Callable

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from control_plane.contracts.errors import Forbidden, InferDeckError, NotFound
from control_plane.contracts.fleet import RequestPhase, Snapshot
from control_plane.contracts.identity import Peer, client_context
from control_plane.router.remote.tokenizer import fetch_bundle
from control_plane.trust.keyring import Keyring
from tests.integration.fleet.rig import CONFIG, Deck, alive, contents, everything_ready, kinds

MakeDeck = Callable[..., Deck]

THREE = CONFIG.replace("[api]", "replicas = 2\n[router]\nreplicas = 3\n[api]")


def routers_ready(snapshot: Snapshot, count: int = 3) -> bool:
    return everything_ready(snapshot) and sum(router.ready for router in snapshot.routers) == count


def quiet(snapshot: Snapshot) -> bool:
    """Every counter of every process is at zero."""
    return (
        not any(view.phase.active for view in snapshot.requests)
        and not any(each.in_flight or each.queued for each in (*snapshot.gateways, *snapshot.routers))
        and not any(view.in_flight for view in snapshot.workers)
    )


async def test_one_of_three_is_killed_in_mid_traffic_and_nobody_notices(make_deck: MakeDeck) -> None:
    deck = make_deck(replicas=2, config=THREE)
    await deck.start()
    before = await deck.until(routers_ready)
    streams = [asyncio.create_task(deck.stream(tokens=60, delay_s=0.05)) for _ in range(9)]
    busy = await deck.until(
        lambda snapshot: (
            sum(view.phase is RequestPhase.DECODING for view in snapshot.requests) == 9
            and all(router.in_flight == 3 for router in snapshot.routers)
        )
    )
    assert {(view.router_id, view.gateway_id) for view in busy.requests} == {(f"r{n}", "g1") for n in (1, 2, 3)}
    victim = before.routers[1]
    os.kill(victim.pid, signal.SIGKILL)
    for events in await asyncio.gather(*streams):
        assert contents(events) == 60
        assert events[-1] == {"end": True}
    after = await deck.until(
        lambda snapshot: routers_ready(snapshot) and snapshot.routers[1].pid != victim.pid and quiet(snapshot)
    )
    assert "killed by SIGKILL" in next(each.message for each in after.events if each.kind == "router_failed")
    assert [view.phase for view in after.requests] == [RequestPhase.FINISHED] * 9
    assert sorted(view.retries for view in after.requests) == [0] * 6 + [1] * 3
    assert contents(await deck.stream(tokens=3)) == 3
    assert await deck.stop() == 0
    assert not [pid for pid in deck.seen_pids if alive(pid)]


async def test_the_next_control_plane_adopts_them_and_streams_go_on(make_deck: MakeDeck) -> None:
    deck = make_deck(replicas=1, config=THREE)
    await deck.start()
    before = await deck.until(routers_ready)
    stream = asyncio.create_task(deck.stream(tokens=60, delay_s=0.05))
    await deck.until(lambda snapshot: len(snapshot.requests) == 1)
    await deck.kill()
    assert contents(await deck.stream(tokens=4)) == 4
    await deck.start()
    after = await deck.until(routers_ready)
    assert [(each.id, each.pid, each.address) for each in after.routers] == [
        (each.id, each.pid, each.address) for each in before.routers
    ]
    assert [kinds(after, f"router/r{n}").count("router_adopted") for n in (1, 2, 3)] == [1, 1, 1]
    events = await stream
    assert contents(events) == 60
    assert events[-1] == {"end": True}
    assert "listening" in deck.log("router-r1")
    async with deck.operator() as operator:
        assert b"listening" in b"".join([piece async for piece in operator.logs("router/r1", tail_lines=50)])
    await deck.kill()
    deck.config.write_text(deck.config.read_text().replace("[router]\nreplicas = 3", "[router]\nreplicas = 0"))
    await deck.start()
    alone = await deck.until(everything_ready)
    assert alone.routers == ()
    assert not [each.pid for each in before.routers if alive(each.pid)]
    assert alone.gateways[0].pid != before.gateways[0].pid, "one with its router inside"
    assert contents(await deck.stream(tokens=3)) == 3
    assert await deck.stop() == 0


async def test_what_is_cancelled_at_a_router_that_hangs_stays_cancelled(make_deck: MakeDeck) -> None:
    deck = make_deck(replicas=1, config=THREE)
    await deck.start()
    before = await deck.until(routers_ready)
    stream = asyncio.create_task(deck.stream(tokens=900, delay_s=0.05))
    busy = await deck.until(
        lambda snapshot: (
            [view.phase for view in snapshot.requests] == [RequestPhase.DECODING]
            and bool(snapshot.requests[0].router_id)
        )
    )
    (request,) = busy.requests
    hung = next(router for router in before.routers if router.id == request.router_id)
    os.kill(hung.pid, signal.SIGSTOP)
    try:
        async with deck.operator() as operator:
            done = await operator.cancel(request.id)
            assert (done.changed, done.message) == (True, f"request/{request.id} cancelled")
            events = await stream
            assert events[-1]["error"]["code"] == "request_cancelled"
            again = await operator.cancel(request.id)
            assert (again.changed, again.message) == (False, f"request/{request.id} has ended already")
        seen = await deck.until(lambda snapshot: not any(view.in_flight for view in snapshot.workers))
        assert [view.phase for view in seen.requests] == [RequestPhase.CANCELLED]
        told = await deck.until(lambda snapshot: any(router.lost for router in snapshot.routers))
        assert [(router.id == hung.id, router.ready) for router in told.routers if router.lost] == [(True, False)]
    finally:
        os.kill(hung.pid, signal.SIGCONT)
    after = await deck.until(lambda snapshot: routers_ready(snapshot) and quiet(snapshot))
    assert [view.phase for view in after.requests] == [RequestPhase.CANCELLED]
    assert kinds(after, f"router/{hung.id}")[-2:] == ["router_lost", "router_back"]
    assert await deck.stop() == 0


async def figures_of(url: str, verify: ssl.SSLContext | bool = True) -> dict[str, float]:
    """What a router tells those who read its figures, by name and labels."""
    async with httpx.AsyncClient(verify=verify, trust_env=False, timeout=60) as http:
        answer = await http.get(url)
    assert answer.status_code == 200
    families = text_string_to_metric_families(answer.text)
    samples = [sample for family in families for sample in family.samples]
    return {" ".join((each.name, *each.labels.values())): each.value for each in samples}


async def test_it_has_figures_of_its_own(make_deck: MakeDeck) -> None:
    deck = make_deck(replicas=1, config=CONFIG.replace("[api]", "[router]\nreplicas = 1\n[api]"))
    await deck.start()
    await deck.until(lambda snapshot: routers_ready(snapshot, 1))
    for _ in range(3):
        assert contents(await deck.stream(tokens=5)) == 5
    async with deck.operator() as operator:
        state = await operator.router("r1")
    assert state.metrics_url.startswith("http://127.0.0.1:")
    told = await figures_of(state.metrics_url)
    assert told["inferdeck_router_calls_total"] == 3
    assert told["inferdeck_router_output_tokens_total"] == 15
    assert told[f"inferdeck_router_decisions_total tiny {state.profile} tiny-1"] == 3
    assert (told["inferdeck_router_ready"], told["inferdeck_router_gateways"]) == (1, 1)
    assert told["inferdeck_router_band tiny"] == 0
    assert told["process_resident_memory_bytes"] > 0
    assert await deck.stop() == 0


async def test_over_mutual_tls_only_gateways_come_in(make_deck: MakeDeck) -> None:
    config = CONFIG.replace("[api]", "[router]\nreplicas = 1\n[security]\nmutual_tls = true\n[api]")
    deck = make_deck(replicas=1, config=config)
    await deck.start()
    snapshot = await deck.until(lambda snapshot: routers_ready(snapshot, 1))
    assert contents(await deck.stream(tokens=5)) == 5
    async with deck.operator() as operator:
        state = await operator.router("r1")
        with pytest.raises(NotFound):
            await operator.router("g1")
    assert state.metrics_url.startswith("https://127.0.0.1:")
    shown = client_context(Keyring(deck.home / "tls").make_client(deck.home / "scraper.pem", "scraper", 1.0))
    shown.check_hostname = False
    shown.set_alpn_protocols(["http/1.1"])
    assert (await figures_of(state.metrics_url, shown))["inferdeck_router_calls_total"] == 1
    assert [(each.worker_id, each.connected, each.requests) for each in state.endpoints] == [("tiny-1", True, 0)]
    assert [gateway.id for gateway in state.gateways] == ["g1"]
    address, keyring = snapshot.routers[0].address, Keyring(deck.home / "tls")
    gateway = str(keyring.peer(Peer.GATEWAY, "g1"))
    assert (await fetch_bundle(address, "tiny", credentials=gateway)).files
    stranger = str(keyring.ensure_peer(Peer.WORKER, "stranger"))
    refused: list[InferDeckError] = []
    for credentials in (stranger, ""):
        try:
            await fetch_bundle(address, "tiny", credentials=credentials)
        except InferDeckError as error:
            refused.append(error)
    assert len(refused) == 2
    assert isinstance(refused[0], Forbidden)
    assert await deck.stop() == 0
