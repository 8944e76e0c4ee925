"""Routers that are processes of their own, as a gateway sees them: lost, stopped, silent, come back."""

from __future__ import annotations

import asyncio
import contextlib
from random import Random
from typing import Any

import pytest

from control_plane.contracts.errors import DropReason, RequestCancelled, Unavailable, WorkerLost
from control_plane.contracts.fleet import RequestPhase, RouterEndpoint
from control_plane.router import server as server_module
from control_plane.router.remote import link as link_module
from tests.integration.router.rig import MODEL, RemoteRig, WaitingSink, remote_rig, until, worker_load, worker_requests
from tests.scripted_worker import ScriptedServer, scripted_server

TEXT = "a text of some length, told token by token"


async def idle(made: RemoteRig, *workers: ScriptedServer) -> None:
    """Every counter of every router, and every worker, is at zero."""
    for worker in workers:
        await until(lambda worker=worker: worker.engine.load().running == 0, "an idle worker")
        load = await worker_load(worker.address)
        assert (load.running, load.waiting, load.used_blocks) == (0, 0, 0)
    await until(lambda: all(not host.core.in_flight for host in made.hosts.values()), "idle routers")
    made.check_idle()


async def placed(handle: Any) -> str:
    """Its router, as soon as a worker has it."""
    await until(lambda: handle.worker_id, "a worker")
    return str(handle.link.endpoint.id)


async def test_calls_are_shared_out_among_routers() -> None:
    async with scripted_server(delay_s=0.01) as worker, remote_rig([worker], routers=3) as made:
        calls = [made.submit({"tokens": 30}) for _ in range(9)]
        shares = sorted(made.where(handle) for handle, _ in calls)
        assert shares == ["r1"] * 3 + ["r2"] * 3 + ["r3"] * 3
        for _, sink in calls:
            assert (await sink.end()).error is None
        await idle(made, worker)


async def test_killing_one_of_three_loses_nothing_and_says_nothing_twice() -> None:
    """Those without a first token begin again, the others go on where they were."""
    async with (
        scripted_server(worker_id="a", delay_s=0.01) as a,
        scripted_server(worker_id="b", delay_s=0.01) as b,
        remote_rig([a, b], routers=3) as made,
    ):
        streams = [made.submit({"text": TEXT}) for _ in range(9)]
        prefilling = [made.submit({"text": TEXT, "prefill_s": 0.4}) for _ in range(6)]
        plain = [made.submit({"text": TEXT}, stream=False) for _ in range(6)]
        for _, sink in streams:
            await sink.begun()
        for handle, _ in prefilling + plain:
            await placed(handle)
        victims = [handle for handle, _ in streams + prefilling + plain if made.where(handle) == "r2"]
        assert len(victims) == 7
        await made.kill("r2")
        for _, sink in streams + prefilling + plain:
            await sink.end()
            assert sink.error is None
            assert sink.text == TEXT
            done = sink.deltas[-1].done
            assert done is not None
            assert sink.tokens == done.output_tokens
        assert {handle.attempts for handle in victims} == {1}
        await idle(made, a, b)
        await until(lambda: len(made.fleet.ended) == 21, "a report of every call")
        ended = made.fleet.ended.values()
        assert {view.phase for view in ended} == {RequestPhase.FINISHED}
        assert {(view.router_id, view.gateway_id) for view in ended} <= {(f"r{n}", "g1") for n in (1, 2, 3)}
        assert sorted(view.retries for view in ended) == [0] * 14 + [1] * 7
        assert len({view.output_tokens for view in ended}) == 1


async def test_what_a_dead_router_had_is_nobodys_any_more() -> None:
    """No call runs twice: the worker ends the old attempt when its stream ends."""
    async with scripted_server() as worker, remote_rig([worker], routers=2) as made:
        handle, sink = made.submit({"tokens": 3, "prefill_s": 20}, request_id="r")
        home = await placed(handle)
        assert await worker_requests(worker.address) == ["r"]
        await made.kill(home)
        await until(lambda: handle.worker_id and made.where(handle) != home, "another router")
        await until(lambda: worker.engine.load().running == 1, "one attempt")
        handle.cancel("client_left")
        await until(lambda: worker.engine.load().running == 0)
        assert not sink.ended.is_set()
        assert sink.deltas == []
        await idle(made, worker)


async def test_what_cannot_go_on_ends_with_an_error_that_says_why() -> None:
    async with scripted_server(delay_s=0.02) as worker, remote_rig([worker], routers=2) as made:
        handle, sink = made.submit({"tokens": 400}, n=2)
        await sink.begun()
        await made.kill(made.where(handle))
        await sink.end()
        assert isinstance(sink.error, WorkerLost)
        assert "several choices of one call cannot go on elsewhere" in sink.error.message
        await idle(made, worker)
        await until(lambda: any(view.phase is RequestPhase.FAILED for view in made.fleet.ended.values()))


async def test_one_bad_call_takes_no_router_after_router_nor_worker_and_router() -> None:
    async with scripted_server(delay_s=0.01) as worker, remote_rig([worker], routers=3, retries=1) as made:
        handle, sink = made.submit({"tokens": 3, "prefill_s": 20})
        for _ in range(2):
            await made.kill(await placed(handle))
            await until(lambda: sink.ended.is_set() or made.where(handle) in made.hosts)
        await sink.end()
        assert isinstance(sink.error, WorkerLost)
        assert sink.error.retry is False
        assert len(made.hosts) == 1
        await idle(made, worker)


async def test_workers_that_were_lost_count_with_the_routers() -> None:
    async with (
        scripted_server(worker_id="a", delay_s=0.01) as a,
        scripted_server(worker_id="b", delay_s=0.01) as b,
        remote_rig([a, b], routers=2, retries=1) as made,
    ):
        handle, sink = made.submit({"tokens": 3, "prefill_s": 20})
        home = await placed(handle)
        first = handle.worker_id
        made.fleet.change(first, instance_id="another")  # the fleet says that the process is a new one
        await until(lambda: handle.worker_id not in ("", first), "the other worker")
        assert handle.attempts == 1
        await made.kill(home)
        await sink.end()
        assert isinstance(sink.error, WorkerLost)
        assert "2 workers and routers" in sink.error.message


async def test_with_no_router_left_new_calls_are_refused_and_those_that_run_wait_for_one() -> None:
    async with scripted_server(delay_s=0.01) as worker, remote_rig([worker]) as made:
        _, sink = made.submit({"text": TEXT}, request_id="r")
        await sink.begun()
        await made.kill("r1")
        await until(lambda: not made.router.ready())
        with pytest.raises(Unavailable) as caught:
            made.submit({"tokens": 1})
        assert caught.value.code == "no_capacity"
        assert {view.name: view.ready_workers for view in made.router.models()} == {MODEL: 0, "empty": 0}
        await until(lambda: made.router.stats().queued == 1)
        await until(lambda: any(view.id == "r" for view in made.fleet.last.active), "it is seen to wait")
        await made.start_router("r9")
        await sink.end()
        assert sink.error is None
        assert sink.text == TEXT
        assert made.router.ready()
        await idle(made, worker)


async def test_waiting_for_a_router_ends_at_the_queues_deadline() -> None:
    async with scripted_server(delay_s=0.01) as worker, remote_rig([worker], queue_timeout_s=0.3) as made:
        _, begun = made.submit({"tokens": 900})
        _, silent = made.submit({"tokens": 900, "prefill_s": 20})
        await begun.begun()
        await made.kill("r1")
        await silent.end()
        await begun.end()
        assert isinstance(silent.error, Unavailable)
        assert silent.error.reason is DropReason.NO_CAPACITY
        assert isinstance(begun.error, WorkerLost)
        await until(lambda: len(made.fleet.ended) == 2)
        await idle(made, worker)


async def test_a_call_that_waits_for_a_worker_waits_on_at_another_router() -> None:
    async with scripted_server(delay_s=0.01) as worker, remote_rig([worker], routers=2) as made:
        handle, sink = made.submit(model="empty")
        home = made.where(handle)
        await until(lambda: made.hosts[home].core.dispatcher.queued == 1)
        await made.kill(home)
        (other,) = made.hosts.values()
        await until(lambda: other.core.dispatcher.queued == 1)
        handle.cancel("client_left")
        assert not sink.ended.is_set()
        await idle(made, worker)


async def test_a_router_that_stops_gets_nothing_new_and_finishes_what_it_has() -> None:
    async with scripted_server(delay_s=0.01) as worker, remote_rig([worker], routers=2) as made:
        running = [made.submit({"text": TEXT}) for _ in range(4)]
        for _, sink in running:
            await sink.begun()
        made.hosts["r1"].server.drain()
        # Some reach it before the gateway has heard: they go to the other one without a word.
        later = [made.submit({"tokens": 3}) for _ in range(6)]
        for _, sink in running + later:
            await sink.end()
            assert sink.error is None
        assert made.hosts["r1"].server.stats().draining
        await made.hosts["r1"].server.drained()
        handle, sink = made.submit({"tokens": 1})
        assert made.where(handle) == "r2"
        await sink.end()
        assert [handle.attempts for handle, _ in running + later] == [0] * 10
        await idle(made, worker)


async def test_a_new_control_plane_that_knows_no_router_yet_changes_nothing() -> None:
    async with scripted_server(delay_s=0.01) as worker, remote_rig([worker], routers=2) as made:
        _, sink = made.submit({"text": TEXT})
        await sink.begun()
        known = dict(made.fleet.routers)
        await made.fleet.stop()
        made.fleet.routers = {}
        await made.fleet.start()
        await until(lambda: len(made.fleet.joined) == 3, "everyone joined again")
        later = [made.submit({"tokens": 2})[1] for _ in range(4)]
        for each in (sink, *later):
            await each.end()
            assert each.error is None
        made.fleet.routers = known
        made.fleet.publish()
        assert made.router.ready()


async def test_another_router_at_the_address_is_not_taken_for_the_one_that_is_meant() -> None:
    async with scripted_server() as worker, remote_rig([worker]) as made:
        address = made.fleet.routers["r1"].address
        made.fleet.routers["r7"] = RouterEndpoint("r7", address)
        made.fleet.publish()
        await until(lambda: len(made.router._links) == 2)
        calls = [made.submit({"tokens": 1}) for _ in range(5)]
        for _, sink in calls:
            await sink.end()
            assert sink.error is None
        assert set(made.links) == {"r1"}


async def test_a_black_hole_gets_nothing() -> None:
    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    async with scripted_server() as worker, remote_rig([worker]) as made:
        hole = await asyncio.start_server(swallow, "127.0.0.1", 0)
        address = f"127.0.0.1:{hole.sockets[0].getsockname()[1]}"
        made.fleet.routers["hole"] = RouterEndpoint("hole", address)
        made.fleet.publish()
        await until(lambda: len(made.router._links) == 2)
        for _ in range(5):
            _, sink = made.submit({"tokens": 1})
            await sink.end()
            assert sink.error is None
        hole.close()


async def test_a_router_that_falls_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "BEAT_S", 0.1)
    monkeypatch.setattr(server_module, "BEAT_S", 0.02)
    monkeypatch.setattr(server_module, "LOOK_S", 0.01)
    async with scripted_server() as worker, remote_rig([worker], routers=2) as made:
        handle, sink = made.submit({"tokens": 2, "prefill_s": 2.0})
        home = await placed(handle)
        await made.hosts[home].server._tasks.cancel()  # no beat any more: the process hangs
        await sink.end()
        assert sink.error is None
        assert made.where(handle) == ""

        def finished_by() -> list[str]:
            ended = [view for report in made.fleet.reports for view in report.ended]
            return [view.router_id for view in ended if view.phase is RequestPhase.FINISHED]

        await until(finished_by, "its report")
        assert finished_by() == [name for name in made.hosts if name != home]


async def test_an_operator_cancels_wherever_the_call_is() -> None:
    async with scripted_server(delay_s=0.01) as worker, remote_rig([worker]) as made:
        _, decoding = made.submit({"tokens": 900}, request_id="decoding")
        _, parked = made.submit({"tokens": 900}, request_id="parked")
        await decoding.begun()
        await parked.begun()
        made.fleet.cancel("decoding")
        await decoding.end()
        assert isinstance(decoding.error, RequestCancelled)
        await until(lambda: "decoding" in made.fleet.ended, "its router's report")
        await made.kill("r1")
        await until(lambda: made.router.stats().queued == 1)
        made.fleet.cancel("parked")
        await parked.end()
        assert isinstance(parked.error, RequestCancelled)
        await until(lambda: {"decoding", "parked"} <= set(made.fleet.ended))
        assert {view.phase for view in made.fleet.ended.values()} == {RequestPhase.CANCELLED}


async def test_what_a_cancelled_call_had_generated_is_told() -> None:
    async with scripted_server() as worker, remote_rig([worker]) as made:
        handle, _ = made.submit({"tokens": 900, "delay_s": 0.005}, stream=False)
        await placed(handle)
        await until(lambda: worker.engine.load().generated_tokens > 5)
        told: list[int] = []
        handle.cancel("client_left", told.append)
        await until(lambda: told, "last words")
        assert told[0] >= 5


async def test_two_routers_add_up_to_what_the_workers_run() -> None:
    """R03 with routers of their own: the sum of their counts is the workers' own, also under cancels of every kind."""
    rng = Random(3)
    async with (
        scripted_server(worker_id="a", delay_s=0.002, max_num_seqs=16, total_blocks=8192) as a,
        scripted_server(worker_id="b", delay_s=0.002, max_num_seqs=16, total_blocks=8192) as b,
        remote_rig([a, b], routers=2, queue_timeout_s=60) as made,
    ):
        held = [made.submit({"tokens": 900, "prefill_s": 60}) for _ in range(8)]
        for handle, _ in held:
            await placed(handle)
        await until(lambda: a.engine.load().running + b.engine.load().running == 8, "all of them running")
        running = {worker.info.worker_id: worker.engine.load().running for worker in (a, b)}
        assert {worker_id: sequences for worker_id, (_, sequences, _) in made.counts().items()} == running
        assert [len(link.calls) for link in made.links.values()] == [4, 4]
        for handle, _ in held:
            handle.cancel("client_left")
        seats = asyncio.Semaphore(48)

        async def one(index: int) -> None:
            async with seats:
                handle, sink = made.submit({"tokens": rng.randint(1, 12)}, stream=rng.random() < 0.7)
                if rng.random() < 0.3:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(sink.ended.wait(), rng.random() * 0.05)
                    handle.cancel("client_left")
                else:
                    await sink.end()
                    assert sink.error is None

        await asyncio.gather(*(one(index) for index in range(600)))
        await idle(made, a, b)
        await until(lambda: len(made.fleet.ended) == 608, "every call in the reports")


async def test_a_sink_that_breaks_costs_its_own_call_only() -> None:
    class Broken(WaitingSink):
        def delta(self, delta: Any) -> None:
            raise ZeroDivisionError

    async with scripted_server(delay_s=0.005) as worker, remote_rig([worker]) as made:
        made.router.submit(made.call({"tokens": 500}), Broken())
        _, sink = made.submit({"tokens": 5})
        await sink.end()
        assert sink.error is None
        await idle(made, worker)


async def test_what_a_call_has_used_is_told_at_once_where_no_router_has_it() -> None:
    async with scripted_server(delay_s=0.01) as worker, remote_rig([worker]) as made:
        handle, sink = made.submit({"text": TEXT})
        await sink.begun()
        await made.kill("r1")
        await until(lambda: handle.link is None, "a call that no router has")
        told: list[int] = []
        handle.cancel("client_left", told.append)
        assert told == [sink.tokens] != [0]


async def test_what_a_waiting_call_has_used_is_told_by_its_router() -> None:
    async with scripted_server() as worker, remote_rig([worker]) as made:
        handle, _ = made.submit({"tokens": 3}, model="empty")
        await until(lambda: made.hosts["r1"].core.dispatcher.queued == 1)
        told: list[int] = []
        handle.cancel("client_left", told.append)
        await until(lambda: told, "its last words")
        assert told == [0]
        assert made.links["r1"]._last_words == {}
