"""Processes that die: the worker, its engine, the gateway, the control plane."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

from control_plane.contracts.fleet import Event, Snapshot, WorkerPhase
from tests.integration.fleet.rig import CONFIG, Deck, alive, contents, everything_ready, gone, kinds, worker

MakeDeck = Callable[..., Deck]


def event(snapshot: Snapshot, kind: str, subject: str) -> Event:
    return next(each for each in reversed(snapshot.events) if (each.kind, each.subject) == (kind, subject))


async def test_a_killed_worker_is_seen_within_a_second_and_comes_back_by_itself(make_deck: MakeDeck) -> None:
    deck = make_deck(replicas=2)
    before = await deck.start()
    victim = worker(before, "tiny-1")
    assert victim.info is not None
    killed_at = time.time()
    os.kill(victim.pid, signal.SIGKILL)
    seen = await deck.until(lambda snapshot: "worker_failed" in kinds(snapshot, "worker/tiny-1"))
    failed = event(seen, "worker_failed", "worker/tiny-1")
    assert failed.at_unix - killed_at < 1.0
    assert "killed by SIGKILL" in failed.message
    back = await deck.until(lambda snapshot: everything_ready(snapshot) and worker(snapshot, "tiny-1").restarts == 1)
    again = worker(back, "tiny-1")
    assert again.info is not None
    assert again.pid != victim.pid
    assert again.info.instance_id != victim.info.instance_id
    assert worker(back, "tiny-2").pid == worker(before, "tiny-2").pid
    assert worker(back, "tiny-2").restarts == 0
    assert contents(await deck.stream(tokens=3)) == 3
    await deck.kill()
    assert worker(await deck.start(), "tiny-1").restarts == 1, "the next control plane knows"
    assert await deck.stop() == 0


async def test_a_worker_whose_engine_dies_says_why_and_comes_back(make_deck: MakeDeck) -> None:
    deck = make_deck()
    before = await deck.start()
    script = json.dumps({"script": {"tokens": 20, "engine_dies_after": 3}})
    body = {"model": "tiny", "messages": [{"role": "user", "content": script}], "max_tokens": 20, "stream": True}
    async with deck.caller() as caller:
        response = await caller.post("/v1/chat/completions", json=body)
    assert "error" not in response.text
    assert response.text.count('"content":') - response.text.count('"content":""') == 20
    assert "[DONE]" in response.text
    seen = await deck.until(lambda snapshot: "worker_failed" in kinds(snapshot, "worker/tiny-1"))
    assert "exit code 70" in event(seen, "worker_failed", "worker/tiny-1").message
    back = await deck.until(lambda snapshot: everything_ready(snapshot) and worker(snapshot, "tiny-1").restarts == 1)
    assert worker(back, "tiny-1").pid != worker(before, "tiny-1").pid
    assert await deck.stop() == 0


async def test_a_worker_that_cannot_start_is_tried_less_and_less_often_and_tells_why(make_deck: MakeDeck) -> None:
    config = CONFIG + 'fail_start = "no room for the weights"\n'
    deck = make_deck(config=config)
    await deck.start(ready=False)
    seen = await deck.until(
        lambda snapshot: (
            bool(snapshot.workers) and snapshot.workers[0].restarts >= 2 and snapshot.workers[0].restart_unix > 0
        )
    )
    view = seen.workers[0]
    assert "no room for the weights (exit code 1)" in view.reason
    assert view.restart_unix > view.phase_since_unix
    assert (view.phase, view.pid) == (WorkerPhase.FAILED, 0)
    failures = [each for each in seen.events if each.kind == "worker_failed"]
    assert [each.message.rpartition("; ")[2] for each in failures[:3]] == [
        "starts again in 0.5 s",
        "starts again in 1.0 s",
        "starts again in 2.0 s",
    ]
    assert await deck.stop() == 0


async def test_the_platform_serves_on_without_its_control_plane_and_the_next_one_adopts_it(
    make_deck: MakeDeck,
) -> None:
    deck = make_deck(replicas=3)
    before = await deck.start()
    async with deck.operator() as operator:
        await operator.cordon("tiny-3")
        await operator.scale("tiny", 2)
    before = await deck.until(lambda snapshot: everything_ready(snapshot) and len(snapshot.workers) == 2)
    async with deck.operator() as operator:
        await operator.cordon("tiny-2")
    streams = [asyncio.create_task(deck.stream(tokens=60, delay_s=0.1)) for _ in range(3)]
    before = await deck.until(lambda snapshot: sum(view.in_flight for view in snapshot.workers) == 3)
    await deck.kill()
    assert contents(await deck.stream(tokens=4)) == 4
    after = await deck.start()
    assert after.control_plane_id != before.control_plane_id
    assert [(view.id, view.pid) for view in after.workers] == [(view.id, view.pid) for view in before.workers]
    assert [view.info.instance_id for view in after.workers if view.info] == [
        view.info.instance_id for view in before.workers if view.info
    ]
    assert [(view.id, view.pid, view.url) for view in after.gateways] == [
        (view.id, view.pid, view.url) for view in before.gateways
    ]
    assert kinds(after, "gateway/g1").count("gateway_adopted") == 1
    assert [view.cordoned for view in after.workers] == [False, True]
    assert [pool.desired for pool in after.pools] == [2]
    for events in await asyncio.gather(*streams):
        assert contents(events) == 60
        assert events[-1] == {"end": True}
    idle = await deck.until(lambda snapshot: not any(view.in_flight for view in snapshot.workers))
    assert not [view for view in idle.requests if view.phase.active]
    assert [each.kind for each in idle.events if each.kind in ("worker_failed", "gateway_failed")] == []
    assert await deck.stop() == 0
    assert not [pid for pid in deck.seen_pids if alive(pid)]


async def test_what_died_while_nobody_looked_is_replaced_and_what_it_left_is_removed(make_deck: MakeDeck) -> None:
    deck = make_deck(replicas=2)
    before = await deck.start()
    await deck.kill()
    os.kill(worker(before, "tiny-1").pid, signal.SIGKILL)
    os.kill(before.gateways[0].pid, signal.SIGKILL)
    await gone(worker(before, "tiny-1").pid)
    await gone(before.gateways[0].pid)
    after = await deck.start()
    assert worker(after, "tiny-1").pid != worker(before, "tiny-1").pid
    assert worker(after, "tiny-2").pid == worker(before, "tiny-2").pid
    assert after.gateways[0].pid != before.gateways[0].pid
    assert after.gateways[0].url == before.gateways[0].url
    assert await deck.stop() == 0
    assert not [pid for pid in deck.seen_pids if alive(pid)]


async def test_workers_of_other_settings_finish_their_work_and_are_replaced(make_deck: MakeDeck) -> None:
    deck = make_deck()
    before = await deck.start()
    stream = asyncio.create_task(deck.stream(tokens=60, delay_s=0.1))
    await deck.until(lambda snapshot: len(snapshot.requests) == 1)
    await deck.kill()
    deck.config.write_text(deck.config.read_text().replace("tokens = 16", "tokens = 17"))
    await deck.start(ready=False)
    after = await deck.until(
        lambda snapshot: (
            everything_ready(snapshot)
            and len(snapshot.workers) == 1
            and snapshot.workers[0].pid != before.workers[0].pid
        )
    )
    assert contents(await stream) == 60
    assert "worker_adopted" in kinds(after, "worker/tiny-1")
    assert not alive(before.workers[0].pid)
    assert await deck.stop() == 0


async def test_a_gateway_that_the_settings_put_elsewhere_is_replaced(make_deck: MakeDeck) -> None:
    deck = make_deck()
    before = await deck.start()
    await deck.kill()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    deck.config.write_text(deck.config.read_text().replace("[gateway]\nport = 0", f"[gateway]\nport = {port}"))
    await deck.start(ready=False)
    after = await deck.until(lambda snapshot: everything_ready(snapshot) and snapshot.gateways[0].url != "")
    assert after.gateways[0].url == f"http://127.0.0.1:{port}"
    assert not alive(before.gateways[0].pid)
    assert [view.pid for view in after.workers] == [view.pid for view in before.workers]
    assert await deck.stop() == 0


async def test_a_gateway_that_dies_is_back_at_the_same_address(make_deck: MakeDeck) -> None:
    deck = make_deck()
    before = await deck.start()
    stream = asyncio.create_task(_broken(deck))
    await deck.until(lambda snapshot: len(snapshot.requests) == 1)
    os.kill(before.gateways[0].pid, signal.SIGKILL)
    assert await stream
    after = await deck.until(
        lambda snapshot: everything_ready(snapshot) and snapshot.gateways[0].pid != before.gateways[0].pid
    )
    assert after.gateways[0].url == before.gateways[0].url
    assert [(view.reason, view.phase.active) for view in after.requests] == [("gateway_lost", False)]
    assert contents(await deck.stream(tokens=3)) == 3
    idle = await deck.until(lambda snapshot: not snapshot.workers[0].in_flight)
    assert idle.workers[0].load is not None
    assert await deck.stop() == 0


async def _broken(deck: Deck) -> Any:
    try:
        return not await deck.stream(tokens=500, delay_s=0.1)
    except Exception as error:
        return error


async def test_a_silent_worker_is_lost_and_comes_back_when_it_speaks(make_deck: MakeDeck) -> None:
    deck = make_deck(replicas=2)
    before = await deck.start()
    pid = worker(before, "tiny-1").pid
    os.kill(pid, signal.SIGSTOP)
    lost = await deck.until(lambda snapshot: worker(snapshot, "tiny-1").phase is WorkerPhase.LOST)
    assert "no sign of life" in worker(lost, "tiny-1").reason
    assert worker(lost, "tiny-1").pid == pid
    assert lost.pools[0].ready == 1
    os.kill(pid, signal.SIGCONT)
    back = await deck.until(lambda snapshot: "worker_back" in kinds(snapshot, "worker/tiny-1"))
    assert (worker(back, "tiny-1").pid, worker(back, "tiny-1").phase) == (pid, WorkerPhase.READY)
    assert await deck.stop() == 0
