from __future__ import annotations

from dataclasses import replace

from console.readiness import Readiness, readiness
from control_plane.contracts.fleet import GatewayView, Pool, Snapshot, WorkerPhase, WorkerView

POOL = Pool("p", "m", "vllm", desired=2, ready=2, observed=2)
READY = WorkerView("p-1", "p", WorkerPhase.READY)
GATEWAY = GatewayView("g1", 1, "http://127.0.0.1:1", ready=True)


def of(**changes: object) -> Readiness:
    base = Snapshot(1, 0.0, "cp", "v", (POOL,), (READY, replace(READY, id="p-2")), (GATEWAY,))
    return readiness(replace(base, **changes))  # type: ignore[arg-type]


def test_ready_when_every_pool_has_its_workers_and_a_gateway_serves() -> None:
    now = of()
    assert (now.ready, now.hopeless) == (True, "")
    assert [(step.subject, step.done) for step in now.steps] == [
        ("gateway/g1", True),
        ("worker/p-1", True),
        ("worker/p-2", True),
    ]


def test_not_ready_without_a_worker_a_gateway_or_a_pool() -> None:
    assert not of(pools=(replace(POOL, ready=1),)).ready
    assert not of(gateways=()).ready
    assert not of(gateways=(replace(GATEWAY, ready=False),)).ready
    assert not of(pools=()).ready


def test_a_worker_that_sleeps_is_not_waited_for_as_long_as_another_serves() -> None:
    sleeping = replace(READY, id="p-2", phase=WorkerPhase.ASLEEP)
    half = of(pools=(replace(POOL, ready=1),), workers=(READY, sleeping))
    assert (half.ready, half.steps[-1].done, half.steps[-1].detail) == (True, True, "asleep")
    starting = replace(READY, id="p-3", phase=WorkerPhase.STARTING)
    assert not of(pools=(replace(POOL, desired=3, ready=1),), workers=(READY, sleeping, starting)).ready


def test_workers_that_operators_keep_out_are_not_waited_for() -> None:
    sleeping, cordoned = replace(READY, phase=WorkerPhase.ASLEEP), replace(READY, id="p-2", cordoned=True)
    gateway, pool = replace(GATEWAY, ready=False), replace(POOL, ready=1)
    now = of(pools=(pool,), workers=(sleeping, cordoned), gateways=(gateway,))
    assert now.ready
    assert now.steps[0].detail == "http://127.0.0.1:1, without a worker: all are cordoned or asleep"
    assert not of(pools=(pool,), workers=(sleeping, cordoned), gateways=(replace(gateway, url=""),)).ready
    assert not of(pools=(pool,), workers=(sleeping, replace(cordoned, cordoned=False)), gateways=(gateway,)).ready


def test_a_platform_that_wants_no_workers_is_ready_with_its_gateway() -> None:
    gateway = replace(GATEWAY, ready=False)
    assert of(pools=(Pool("p", "m", "vllm", desired=0),), workers=(), gateways=(gateway,)).ready
    assert not of(pools=(Pool("p", "m", "vllm", desired=0),), workers=(), gateways=(replace(gateway, url=""),)).ready


def test_an_unfinished_worker_says_what_it_is_at() -> None:
    loading = replace(READY, phase=WorkerPhase.STARTING, reason="loading the model")
    [step] = of(workers=(loading,), gateways=()).steps
    assert (step.done, step.detail) == (False, "loading the model")
    [step] = of(workers=(replace(loading, reason=""),), gateways=()).steps
    assert step.detail == "starting"


def test_a_worker_that_failed_three_times_is_hopeless_with_its_reason() -> None:
    failed = replace(READY, phase=WorkerPhase.FAILED, reason="out of memory", restarts=1)
    pool = replace(POOL, ready=0)
    assert of(workers=(failed,), pools=(pool,)).hopeless == ""
    now = of(workers=(replace(failed, restarts=2),), pools=(pool,))
    assert (now.hopeless, now.culprit) == ("worker/p-1 failed 3 times: out of memory", "p-1")


def test_a_worker_that_refuses_its_settings_is_not_waited_for() -> None:
    failed = replace(READY, phase=WorkerPhase.FAILED, reason="deck.toml:7: no such argument", refuses_settings=True)
    now = of(workers=(failed,), pools=(replace(POOL, ready=0),))
    assert (now.hopeless, now.culprit) == ("worker/p-1 cannot start: deck.toml:7: no such argument", "p-1")


def test_a_worker_that_came_back_is_not_hopeless() -> None:
    assert of(workers=(replace(READY, restarts=9),)).ready
