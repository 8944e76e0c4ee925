"""What operators do, over gRPC, to workers that are at work."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

import pytest

from control_plane.contracts.errors import Conflict, NotFound
from control_plane.contracts.fleet import DrainProgress, RequestPhase, Snapshot, WorkerPhase
from control_plane.contracts.worker import WorkerState
from tests.integration.fleet.rig import Deck, alive, contents, everything_ready, ids, kinds, ready_ids, worker

MakeDeck = Callable[..., Deck]


async def test_scaling_out_and_in_again(make_deck: MakeDeck) -> None:
    deck = make_deck()
    await deck.start()
    async with deck.operator() as operator:
        plan = await operator.scale("tiny", 3, dry_run=True)
        assert (plan.changed, plan.message) == (True, "would scale pool/tiny from 1 to 3")
        assert plan.affected == ("tiny-2", "tiny-3")
        assert (await operator.get_snapshot()).pools[0].desired == 1

        done = await operator.scale("tiny", 3)
        assert (done.changed, done.message) == (True, "pool/tiny scaled from 1 to 3")
        three = await deck.until(lambda snapshot: ready_ids(snapshot) == ["tiny-1", "tiny-2", "tiny-3"])
        again = await operator.scale("tiny", 3)
        assert (again.changed, again.message) == (False, "pool/tiny has 3 replicas already")

        await operator.scale("tiny", 1)
        one = await deck.until(lambda snapshot: ids(snapshot) == ["tiny-1"])
        assert worker(one, "tiny-1").pid == worker(three, "tiny-1").pid
        assert not alive(worker(three, "tiny-2").pid)
        assert not alive(worker(three, "tiny-3").pid)
        assert not (deck.home / "run" / "workers" / "tiny-2.spec.json").exists()
        stopped = [event.kind for event in one.events if event.subject == "worker/tiny-3"]
        assert stopped[-3:] == ["worker_retiring", "worker_stopping", "worker_gone"]
    assert await deck.stop() == 0
    await deck.start(ready=False)
    kept = await deck.until(everything_ready)
    assert kept.pools[0].desired == 1
    assert await deck.stop() == 0


async def test_scale_in_takes_the_idle_worker_and_lets_streams_finish(make_deck: MakeDeck) -> None:
    deck = make_deck(replicas=2)
    await deck.start()
    async with deck.operator() as operator:
        await operator.cordon("tiny-2")
        streams = [asyncio.create_task(deck.stream(tokens=40, delay_s=0.05)) for _ in range(2)]
        await deck.until(lambda snapshot: worker(snapshot, "tiny-1").in_flight == 2)
        await operator.uncordon("tiny-2")
        await operator.scale("tiny", 1)
        left = await deck.until(lambda snapshot: len(snapshot.workers) == 1)
        assert ids(left) == ["tiny-1"], "the idle one goes"

        plan = await operator.scale("tiny", 0, dry_run=True)
        assert (plan.affected, plan.in_flight) == (("tiny-1",), 2)
        await operator.scale("tiny", 0)
        leaving = await deck.until(lambda snapshot: worker(snapshot, "tiny-1").cordoned)
        assert worker(leaving, "tiny-1").phase is WorkerPhase.READY
        for events in await asyncio.gather(*streams):
            assert contents(events) == 40
            assert events[-1] == {"end": True}
        await deck.until(lambda snapshot: not snapshot.workers)
    assert await deck.stop() == 0


async def test_a_worker_on_its_way_out_is_called_back(make_deck: MakeDeck) -> None:
    deck = make_deck()
    before = await deck.start()
    async with deck.operator() as operator:
        stream = asyncio.create_task(deck.stream(tokens=60, delay_s=0.05))
        await deck.until(lambda snapshot: snapshot.workers[0].in_flight == 1)
        await operator.scale("tiny", 0)
        await deck.until(lambda snapshot: snapshot.workers[0].draining)
        with pytest.raises(Conflict, match="worker/tiny-1 is on its way out: pool tiny is scaled to 0") as caught:
            await operator.uncordon("tiny-1")
        assert caught.value.hint == "inferdeck scale tiny=1"
        await operator.scale("tiny", 1)
        back = await deck.until(
            lambda snapshot: not snapshot.workers[0].draining and snapshot.workers[0].phase is WorkerPhase.READY
        )
        assert back.workers[0].pid == before.workers[0].pid
        assert contents(await stream) == 60
        assert contents(await deck.stream(tokens=2)) == 2
    assert await deck.stop() == 0


async def test_cordon_drain_and_uncordon(make_deck: MakeDeck) -> None:
    deck = make_deck(replicas=2)
    before = await deck.start()
    async with deck.operator() as operator:
        assert (await operator.cordon("tiny-1", dry_run=True)).message == "would cordon worker/tiny-1"
        assert not worker(await operator.get_snapshot(), "tiny-1").cordoned
        assert (await operator.cordon("tiny-1")).changed
        assert not (await operator.cordon("tiny-1")).changed
        await asyncio.gather(*(deck.stream(tokens=2) for _ in range(6)))
        snapshot = await deck.until(lambda snapshot: len(snapshot.requests) == 6)
        assert {view.worker_id for view in snapshot.requests} == {"tiny-2"}
        assert (await operator.uncordon("tiny-1")).changed
        assert not (await operator.uncordon("tiny-1")).changed

        streams = [asyncio.create_task(deck.stream(tokens=200, delay_s=0.05)) for _ in range(4)]
        busy = await deck.until(lambda snapshot: [len(held(snapshot, name)) for name in ("tiny-1", "tiny-2")] == [2, 2])
        running = held(busy, "tiny-1")
        (plan,) = [step async for step in operator.drain("tiny-1", dry_run=True)]
        assert plan.message == "would cordon worker/tiny-1 and wait for 2 in flight"
        assert (plan.in_flight, set(plan.request_ids)) == (2, running)

        late = [step async for step in operator.drain("tiny-1", timeout_s=0.2)]
        assert late[-1].timed_out
        assert not late[-1].done
        assert set(late[-1].request_ids) == running
        assert worker(await operator.get_snapshot(), "tiny-1").cordoned, "it stays cordoned"

        watching = asyncio.create_task(_all(operator.drain("tiny-1")))
        await deck.until(lambda snapshot: worker(snapshot, "tiny-1").draining)
        await operator.uncordon("tiny-1")
        with pytest.raises(Conflict, match="called off: it was uncordoned"):
            await watching

        steps = [step async for step in operator.drain("tiny-1")]
        assert [step.done for step in steps] == [False] * (len(steps) - 1) + [True]
        assert steps[-1] == DrainProgress("tiny-1", 0, done=True, message="worker/tiny-1 is drained")
        for events in await asyncio.gather(*streams):
            assert contents(events) == 200
        drained = await deck.until(lambda snapshot: _state(snapshot, "tiny-1") is WorkerState.DRAINING)
        assert worker(drained, "tiny-1").pid == worker(before, "tiny-1").pid
        assert [step.done for step in [step async for step in operator.drain("tiny-1")]] == [True], "idempotent"

        await operator.uncordon("tiny-1")
        await deck.until(lambda snapshot: _state(snapshot, "tiny-1") is WorkerState.READY)
        await operator.cordon("tiny-2")
        assert contents(await deck.stream(tokens=2)) == 2
    assert await deck.stop() == 0


async def test_a_worker_sleeps_while_the_other_serves_and_wakes(make_deck: MakeDeck) -> None:
    deck = make_deck(replicas=2)
    await deck.start()
    async with deck.operator() as operator:
        stream = asyncio.create_task(deck.stream(tokens=40, delay_s=0.05))
        busy = await deck.until(lambda snapshot: any(held(snapshot, name) for name in ("tiny-1", "tiny-2")))
        name = next(name for name in ("tiny-1", "tiny-2") if held(busy, name))
        with pytest.raises(Conflict, match="1 request runs here") as refused:
            await operator.sleep(name, 1)
        assert refused.value.hint == f"inferdeck drain {name}"
        assert contents(await stream) == 40

        plan = await operator.sleep("tiny-1", 2, dry_run=True)
        assert (plan.changed, plan.message) == (True, "would put worker/tiny-1 to sleep at level 2")
        assert worker(await operator.get_snapshot(), "tiny-1").phase is WorkerPhase.READY
        slept = await operator.sleep("tiny-1", 2)
        assert slept.message.startswith("worker/tiny-1 asleep at level 2: its weights are discarded, in ")
        assert not (await operator.sleep("tiny-1", 2)).changed
        seen = await deck.until(lambda snapshot: worker(snapshot, "tiny-1").phase is WorkerPhase.ASLEEP)
        assert [pool.ready for pool in seen.pools] == [1]
        await asyncio.gather(*(deck.stream(tokens=2) for _ in range(6)))
        before = len(seen.requests)
        told = await deck.until(lambda snapshot: len(snapshot.requests) >= before + 6)
        assert [view.worker_id for view in told.requests].count("tiny-2") >= 6

        assert (await operator.wake("tiny-1", dry_run=True)).message == "would wake worker/tiny-1"
        assert (await operator.wake("tiny-1")).message.startswith("worker/tiny-1 awake, in ")
        assert not (await operator.wake("tiny-1")).changed
        await deck.until(everything_ready)
        await operator.cordon("tiny-2")
        assert contents(await deck.stream(tokens=2)) == 2
        events = [event.kind for event in (await operator.get_snapshot()).events if event.subject == "worker/tiny-1"]
        assert events[-2:] == ["worker_asleep", "worker_awake"]
    assert await deck.stop() == 0


async def test_a_drained_worker_sleeps_and_is_drained_when_it_wakes(make_deck: MakeDeck) -> None:
    deck = make_deck()
    await deck.start()
    async with deck.operator() as operator:
        await _all(operator.drain("tiny-1"))
        assert (await operator.sleep("tiny-1", 1)).changed
        await deck.until(lambda snapshot: worker(snapshot, "tiny-1").phase is WorkerPhase.ASLEEP)
        assert [step.done for step in await _all(operator.drain("tiny-1"))] == [True], "nothing runs on it"
        await operator.wake("tiny-1")
        awake = await deck.until(lambda snapshot: worker(snapshot, "tiny-1").phase is WorkerPhase.READY)
        assert worker(awake, "tiny-1").cordoned
        assert _state(awake, "tiny-1") is WorkerState.DRAINING
        await operator.uncordon("tiny-1")
        await deck.until(lambda snapshot: _state(snapshot, "tiny-1") is WorkerState.READY)
        assert contents(await deck.stream(tokens=2)) == 2
    assert await deck.stop() == 0


async def _all(steps: AsyncIterator[DrainProgress]) -> list[DrainProgress]:
    return [step async for step in steps]


def held(snapshot: Snapshot, worker_id: str) -> set[str]:
    return {view.id for view in snapshot.requests if view.worker_id == worker_id and view.phase.active}


def _state(snapshot: Snapshot, worker_id: str) -> WorkerState | None:
    load = worker(snapshot, worker_id).load
    return load.state if load is not None else None


async def test_the_last_worker_can_be_drained_and_stays_so_over_a_restart(make_deck: MakeDeck) -> None:
    deck = make_deck()
    await deck.start()
    async with deck.operator() as operator:
        assert [step.done for step in [step async for step in operator.drain("tiny-1")]][-1]
    assert await deck.stop() == 0
    await deck.start(ready=False)
    seen = await deck.until(lambda snapshot: ready_ids(snapshot) == ["tiny-1"])
    assert worker(seen, "tiny-1").cordoned
    async with deck.operator() as operator:
        await operator.uncordon("tiny-1")
    await deck.until(everything_ready)
    assert contents(await deck.stream(tokens=2)) == 2
    assert await deck.stop() == 0


async def test_cancelling_a_request(make_deck: MakeDeck) -> None:
    deck = make_deck()
    await deck.start()
    async with deck.operator() as operator:
        stream = asyncio.create_task(deck.stream(tokens=1000, delay_s=0.05))
        seen = await deck.until(lambda snapshot: any(view.phase is RequestPhase.DECODING for view in snapshot.requests))
        (request,) = seen.requests
        plan = await operator.cancel(request.id, dry_run=True)
        assert (plan.changed, plan.message) == (True, f"would cancel request/{request.id}")
        done = await operator.cancel(request.id)
        assert (done.changed, done.message) == (True, f"request/{request.id} cancelled")
        events = await stream
        assert events[-1]["error"]["code"] == "request_cancelled"
        for _ in range(2):
            again = await operator.cancel(request.id)
            assert (again.changed, again.message) == (False, f"request/{request.id} has ended already")
        idle = await deck.until(lambda snapshot: not snapshot.workers[0].in_flight)
        assert [(view.id, view.phase) for view in idle.requests] == [(request.id, RequestPhase.CANCELLED)]
        assert "request_cancelled" in kinds(idle, f"request/{request.id}")
        for dry_run in (True, False):
            with pytest.raises(NotFound, match=r"there is no request 'req-nope'; 0 run now") as caught:
                await operator.cancel("req-nope", dry_run=dry_run)
            assert caught.value.hint == "inferdeck get requests"
    assert await deck.stop() == 0


async def test_shutdown_lets_requests_finish_and_can_be_hurried(make_deck: MakeDeck) -> None:
    deck = make_deck()
    await deck.start()
    stream = asyncio.create_task(deck.stream(tokens=30, delay_s=0.05))
    await deck.until(lambda snapshot: snapshot.workers[0].in_flight == 1)
    async with deck.operator() as operator:
        said = [step async for step in operator.shutdown(grace_s=30)]
    assert [step.done for step in said] == [False] * (len(said) - 1) + [True]
    assert [step.message for step in said] == [
        "shutting down, 1 requests run",
        "gateways stopped: g1",
        "workers stopped: tiny-1",
        "stopped",
    ]
    assert contents(await stream) == 30
    assert await deck.ended() == 0

    await deck.start()
    endless = asyncio.create_task(deck.stream(tokens=1500, delay_s=0.05))
    await deck.until(lambda snapshot: snapshot.workers[0].in_flight == 1)
    began = time.monotonic()
    async with deck.operator() as operator:
        async with contextlib.aclosing(operator.shutdown(grace_s=600)) as first:  # type: ignore[type-var]
            assert (await anext(aiter(first))).message == "shutting down, 1 requests run"
        assert [step async for step in operator.shutdown(grace_s=0)][-1].done
    assert time.monotonic() - began < 60
    assert (await endless)[-1]["error"]["code"] == "draining"
    assert await deck.ended() == 0
    assert not [pid for pid in deck.seen_pids if alive(pid)]


async def test_names_that_do_not_exist_are_told_with_those_that_do(make_deck: MakeDeck) -> None:
    deck = make_deck()
    await deck.start()
    async with deck.operator() as operator:
        for call in (operator.cordon("w9"), operator.uncordon("w9"), anext(aiter(operator.drain("w9")))):
            with pytest.raises(NotFound, match=r"there is no worker 'w9'; there are: tiny-1") as caught:
                await call
            assert (caught.value.param, caught.value.hint) == ("worker_id", "inferdeck get workers")
        with pytest.raises(NotFound, match=r"there is no pool 'p9'; there are: tiny") as caught:
            await operator.scale("p9", 1)
        with pytest.raises(Conflict, match="0 to 1000"):
            await operator.scale("tiny", 5000)
        with pytest.raises(NotFound, match=r"there is no log of 'w9'; there are: control-plane, g1, tiny-1"):
            await anext(aiter(operator.logs("w9")))
        with pytest.raises(NotFound):
            await anext(aiter(operator.logs("../api.key")))
    assert await deck.stop() == 0
