"""Calls over real streams to workers that serve from this process."""

from __future__ import annotations

import asyncio
import contextlib
import time
from random import Random

import pytest

from control_plane.contracts.errors import DropReason, InternalError, RequestCancelled
from control_plane.contracts.fleet import Endpoint, RequestPhase, WorkerPhase
from control_plane.contracts.worker import CallError, Load, WorkerState
from tests.integration.router.rig import MODEL, rig, until, worker_load, worker_requests
from tests.scripted_worker import scripted_server
from tests.unit.router.tiers import ENTERPRISE, FREE


async def test_the_ledger_agrees_with_a_stopwatch() -> None:
    async with scripted_server(delay_s=0.02, prefill_s=0.15) as worker, rig([worker]) as made:
        begin = time.monotonic()
        _, sink = made.submit({"tokens": 20}, request_id="timed")
        await sink.end()
        took = time.monotonic() - begin
        gaps = sorted(later - earlier for earlier, later in zip(sink.times, sink.times[1:], strict=False))
        await until(lambda: "timed" in made.fleet.ended)
        view = made.fleet.ended["timed"]
        assert view.ttft_s == pytest.approx(sink.times[0] - begin, abs=0.02)
        assert view.ttft_s >= 0.15
        assert view.itl_p50_s == pytest.approx(gaps[len(gaps) // 2], rel=0.15)
        assert view.duration_s == pytest.approx(took, abs=0.05)
        assert (view.phase, view.reason, view.output_tokens) == (RequestPhase.FINISHED, "stop", 20)
        stages = {stage.name: stage for stage in view.stages}
        assert list(stages) == ["queue", "route", "worker_queue", "prefill", "decode"]
        assert stages["prefill"].duration_s == pytest.approx(0.15, abs=0.05)
        assert stages["prefill"].start_s + stages["prefill"].duration_s == pytest.approx(view.ttft_s, abs=0.05)


async def test_reports_are_complete_and_prompt() -> None:
    async with scripted_server(delay_s=0.005) as worker, rig([worker]) as made:
        fleet = made.fleet
        await until(lambda: len(fleet.reports) >= 2)
        assert fleet.reports[0].identity is not None
        assert (fleet.reports[0].identity.id, fleet.reports[0].identity.url) == ("g1", "http://127.0.0.1:1")
        assert fleet.last.stats is not None
        assert (fleet.last.stats.requests_total, fleet.last.stats.responses) == (9, {200: 8, 404: 1})
        handle, sink = made.submit({"tokens": 2000}, request_id="long")
        await sink.begun()
        await until(lambda: [v.phase for v in fleet.last.active] == [RequestPhase.DECODING])
        assert fleet.last.active[0].worker_id == "scripted-1"
        assert fleet.last.active[0].output_tokens > 0
        handle.cancel("client_left")
        asked = len(fleet.reports)
        await until(lambda: "long" in fleet.ended)
        assert len(fleet.reports) - asked <= 3
        assert fleet.ended["long"].phase is RequestPhase.CANCELLED
        assert fleet.last.active == ()
        assert sum(sum(h.buckets.values()) for r in fleet.reports for h in r.ttft.values()) == 1
        counted = sum(sum(h.buckets.values()) for r in fleet.reports for h in r.itl.values())
        assert counted == len(sink.deltas) - 1
        reports = len(fleet.reports)
        await until(lambda: len(fleet.reports) >= reports + 2, "regular reports")


async def test_an_operator_cancels_queued_running_finished_and_unknown() -> None:
    """C04."""
    async with scripted_server(delay_s=0.005, prefill_s=0.05) as worker, rig([worker]) as made:
        fleet = made.fleet
        outcomes = lambda: {o.request_id: (o.found, o.already_ended) for r in fleet.reports for o in r.cancels}  # noqa: E731
        _, prefilling = made.submit({"tokens": 900, "prefill_s": 20}, request_id="prefilling")
        _, decoding = made.submit({"tokens": 900}, request_id="decoding")
        _, plain = made.submit({"tokens": 900}, request_id="plain", stream=False)
        _, queued = made.submit(request_id="queued", model="empty")
        _, finished = made.submit({"tokens": 1}, request_id="finished")
        await decoding.begun()
        await finished.end()
        for name in ("prefilling", "decoding", "plain", "queued", "finished", "unknown"):
            fleet.cancel(name)
        for sink in (prefilling, decoding, plain, queued):
            await sink.end()
            assert isinstance(sink.error, RequestCancelled)
            assert sink.error.retry is False
        await until(lambda: len(outcomes()) == 6)
        running = dict.fromkeys(("prefilling", "decoding", "plain", "queued"), (True, False))
        assert outcomes() == running | {"finished": (True, True), "unknown": (False, False)}
        await until(lambda: worker.engine.load().running == 0)
        assert await worker_requests(worker.address) == []
        made.check_idle()


async def test_a_worker_that_is_drained_gets_nothing_new_and_finishes_what_it_has() -> None:
    async with (
        scripted_server(worker_id="a", delay_s=0.01) as a,
        scripted_server(worker_id="b", delay_s=0.01) as b,
        rig([a, b]) as made,
    ):
        running = [made.submit({"tokens": 60}) for _ in range(4)]
        for _, sink in running:
            await sink.begun()
        assert {handle.worker_id for handle, _ in running} == {"a", "b"}
        made.fleet.change("a", cordoned=True)
        await until(lambda: made.router.dispatcher.targets.by_worker("a").candidate.cordoned)
        later = [made.submit({"tokens": 3}) for _ in range(6)]
        assert {handle.worker_id for handle, _ in later} == {"b"}
        for _, sink in running + later:
            await sink.end()
            assert sink.error is None
        made.check_idle()


async def test_a_worker_that_refuses_before_the_fleet_knows_costs_nobody_an_error() -> None:
    async with (
        scripted_server(worker_id="a", delay_s=0.002) as a,
        scripted_server(worker_id="b", delay_s=0.002) as b,
        rig([a, b]) as made,
    ):
        a.status.move(WorkerState.DRAINING, "test")
        sinks = [made.submit({"tokens": 3})[1] for _ in range(20)]
        for sink in sinks:
            await sink.end()
            assert sink.error is None
        assert a.engine.load().generated_tokens == 0
        made.check_idle()


async def test_a_call_waits_while_the_only_worker_drains_and_runs_when_it_resumes() -> None:
    async with scripted_server(delay_s=0.002) as worker, rig([worker]) as made:
        worker.status.move(WorkerState.DRAINING, "test")
        _, sink = made.submit({"tokens": 3})
        await until(lambda: made.router.dispatcher.queued == 1)
        worker.status.move(WorkerState.READY)
        await sink.end()
        assert sink.error is None


async def test_an_error_of_the_engine_is_retried_on_another_worker_and_then_told() -> None:
    async with (
        scripted_server(worker_id="a", delay_s=0.002) as a,
        scripted_server(worker_id="b", delay_s=0.002) as b,
        rig([a, b]) as made,
    ):
        _, sink = made.submit({"tokens": 3, "finish": "error"}, stream=False, request_id="r")
        await sink.end()
        assert isinstance(sink.error, InternalError)
        assert a.engine.load().generated_tokens == b.engine.load().generated_tokens == 3
        await until(lambda: "r" in made.fleet.ended)
        assert made.fleet.ended["r"].retries == 1


async def test_an_engine_that_dies_is_a_lost_worker() -> None:
    async with (
        scripted_server(worker_id="a", delay_s=0.002) as a,
        scripted_server(worker_id="b", delay_s=0.002) as b,
        rig([a, b]) as made,
    ):
        _, sink = made.submit({"text": "abcdefghi", "engine_dies_after": 3})
        dead = {"a": a, "b": b}[made.submit({"tokens": 1})[0].worker_id]
        dead = a if dead is b else b
        await asyncio.wait_for(dead.engine.dead(), 20)
        dead.server.calls.fail_all(CallError(DropReason.ENGINE_DEAD, "the engine died: script"))
        await sink.end()
        assert sink.error is None
        assert (sink.text, sink.tokens) == ("abcdefghi", 9)


async def test_a_worker_of_another_instance_or_model_is_refused_whatever_the_fleet_says() -> None:
    async with scripted_server(worker_id="a") as a, scripted_server(worker_id="b") as b, rig([a]) as made:
        await made.fleet.add(b, instance_id="somebody-else")
        _, sinks = zip(*[made.submit({"tokens": 2}) for _ in range(6)], strict=True)
        for sink in sinks:
            await sink.end()
        assert b.engine.load().generated_tokens == 0
        await made.fleet.add(b)
        await made.ready(2)
        made.fleet.change("b", model="another", instance_id=b.info.instance_id)
        await until(lambda: len(made.router.dispatcher.targets.candidates("another")) == 1)


async def test_a_black_hole_costs_nobody_more_than_the_connect_timeout() -> None:
    """A socket that accepts and says nothing."""
    async with scripted_server(worker_id="a", delay_s=0.002) as a, rig([a]) as made:

        async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()

        hole = await asyncio.start_server(swallow, "127.0.0.1", 0)
        address = f"127.0.0.1:{hole.sockets[0].getsockname()[1]}"
        made.fleet.workers["hole"] = Endpoint("hole", "hole-i", address, "scripted", MODEL, WorkerPhase.READY)
        made.fleet.publish()
        await until(lambda: len(made.router.dispatcher.targets.all()) == 2)
        sinks = [made.submit({"tokens": 2})[1] for _ in range(10)]
        for sink in sinks:
            await sink.end()
            assert sink.error is None
        hole.close()


async def test_load_of_others_and_stale_load_steer_the_choice() -> None:
    async with scripted_server(worker_id="a") as a, scripted_server(worker_id="b") as b, rig([a, b]) as made:
        busy = Load(a.info.instance_id, time.time(), WorkerState.READY, running=5)
        idle = Load(b.info.instance_id, time.time(), WorkerState.READY)
        made.fleet.change("b", load=idle)
        made.fleet.change("a", load=busy)
        await until(lambda: made.router.dispatcher.targets.by_worker("a").candidate.others == 5)
        handles = [made.submit({"tokens": 1})[0] for _ in range(4)]
        assert {handle.worker_id for handle in handles} == {"b"}


async def test_a_thousand_requests_of_every_fate_leave_nothing_behind() -> None:
    """Over real streams: cancels at random moments, refusals, errors, choices, plain calls and streams."""
    rng = Random(7)
    async with (
        scripted_server(worker_id="a", delay_s=0.002, max_num_seqs=16, total_blocks=8192) as a,
        scripted_server(worker_id="b", delay_s=0.002, max_num_seqs=16, total_blocks=8192) as b,
        rig([a, b], queue_timeout_s=60) as made,
    ):
        seats = asyncio.Semaphore(64)

        async def one(index: int) -> None:
            script = {"tokens": rng.randint(1, 12)}
            if rng.random() < 0.05:
                script["finish"] = "error"
            async with seats:
                handle, sink = made.submit(script, stream=rng.random() < 0.7, n=rng.choice([1, 1, 2]))
                if rng.random() < 0.3:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(sink.ended.wait(), rng.random() * 0.05)
                    handle.cancel("client_left")
                else:
                    await sink.end()
                    assert sink.error is None or "finish" in script

        await asyncio.gather(*(one(index) for index in range(1000)))
        made.check_idle()
        for worker in (a, b):
            await until(lambda worker=worker: worker.engine.load().running == 0)
            load = await worker_load(worker.address)
            assert (load.running, load.waiting, load.used_blocks) == (0, 0, 0)
        await until(lambda: len(made.fleet.ended) == 1000, "every request in the reports")
        assert a.engine.load().prompt_tokens == pytest.approx(b.engine.load().prompt_tokens, rel=0.35)


async def test_the_victim_of_a_preemption_is_told_with_its_tier() -> None:
    """A call of a higher priority takes the blocks of a lower one in the engine; the report of both says so."""
    async with scripted_server(total_blocks=24, delay_s=0.002) as worker, rig([worker]) as made:
        _, victim = made.submit({"tokens": 200}, request_id="victim", max_tokens=220, **FREE)
        await victim.begun()
        _, taker = made.submit({"tokens": 200}, request_id="taker", max_tokens=220, **ENTERPRISE)
        await taker.end()
        await victim.end()
        await until(lambda: {"victim", "taker"} <= set(made.fleet.ended))
        told = {name: made.fleet.ended[name] for name in ("victim", "taker")}
        assert {view.reason for view in told.values()} == {"stop"}
        assert told["victim"].preemptions >= 1
        assert (told["victim"].tier, told["taker"].tier, told["taker"].preemptions) == ("free", "enterprise", 0)
        made.check_idle()
