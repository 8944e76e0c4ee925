"""What one worker is to others: its phase, whether it is idle, what routers are told."""

from __future__ import annotations

import time
from typing import Any

import pytest

from control_plane.contracts.fleet import WorkerPhase
from control_plane.contracts.worker import Load, WorkerState
from control_plane.contracts.worker_spec import WorkerSpec
from control_plane.fleet.health import FRESH_S, Health, Life
from control_plane.fleet.state import Stage
from control_plane.fleet.worker import Worker

SPEC = WorkerSpec("p-1", "p", "scripted", "m", "", "/announce", "/log", "/cache", gpus=[3])


def load(state: WorkerState = WorkerState.READY, **fields: Any) -> Load:
    return Load("i-1", time.time(), state, **fields)


def serving(**fields: Any) -> Worker:
    now = time.monotonic()
    given = {
        "stage": Stage.SERVING,
        "load": load(),
        "load_at": now,
        "health": Health(now, Life.ALIVE),
        "instance_id": "i-1",
    } | fields
    return Worker("p-1", "p", "m", SPEC, "/log", **given)


@pytest.mark.parametrize(
    ("fields", "phase"),
    [
        ({}, WorkerPhase.READY),
        ({"stage": Stage.WAITING}, WorkerPhase.STARTING),
        ({"stage": Stage.WAITING, "failures": 1}, WorkerPhase.FAILED),
        ({"stage": Stage.STARTING, "load": None}, WorkerPhase.STARTING),
        ({"stage": Stage.STOPPING}, WorkerPhase.STOPPING),
        ({"ended": "exit code 1"}, WorkerPhase.FAILED),
        ({"stage": Stage.STOPPING, "ended": "exit code 0"}, WorkerPhase.STOPPING),
        ({"health": Health(0.0, Life.LOST)}, WorkerPhase.LOST),
        ({"load": None}, WorkerPhase.STARTING),
        ({"load": load(WorkerState.FAILED)}, WorkerPhase.FAILED),
        ({"load": load(WorkerState.DRAINING)}, WorkerPhase.READY),
    ],
)
def test_phases(fields: dict[str, Any], phase: WorkerPhase) -> None:
    assert serving(**fields).phase is phase


def test_only_what_is_known_to_do_nothing_is_idle() -> None:
    now = time.monotonic()
    assert serving().idle(0, now)
    assert not serving().idle(1, now), "a router holds a request on it"
    assert not serving(load=load(running=1)).idle(0, now)
    assert not serving(load=load(waiting=1)).idle(0, now)
    assert not serving(load=None).idle(0, now)
    assert not serving(load_at=now - FRESH_S - 1).idle(0, now), "a stale load is never idle"
    assert not serving(health=Health(now, Life.LOST)).idle(0, now)
    assert not serving(stage=Stage.STOPPING).idle(0, now)


def test_in_flight_is_the_most_that_anyone_counts() -> None:
    now = time.monotonic()
    assert serving(load=load(running=2, waiting=1)).in_flight(1, now) == 3
    assert serving(load=load(running=2)).in_flight(5, now) == 5
    assert serving(load=load(running=2), load_at=now - FRESH_S - 1).in_flight(1, now) == 1


def test_the_reconciler_sees_drained_when_the_worker_itself_says_so() -> None:
    now = time.monotonic()
    assert not serving(retiring=True).replica(0, now).drained
    assert serving(retiring=True, load=load(WorkerState.DRAINING)).replica(0, now).drained
    assert serving().replica(0, now).gpus == (3,)


def test_routers_are_told_not_to_use_what_is_cordoned_or_on_its_way_out() -> None:
    now = time.monotonic()
    assert not serving().endpoint(now).cordoned
    assert serving(cordoned=True).endpoint(now).cordoned
    assert serving(retiring=True).endpoint(now).cordoned
    assert serving(load_at=now - 2).endpoint(now).load_age_s == pytest.approx(2)


def test_a_new_process_starts_with_nothing_of_the_last_but_its_name() -> None:
    worker = serving(ended="boom", killed=True, failures=2)
    worker.begin()
    assert (worker.stage, worker.load, worker.ended, worker.killed) == (Stage.STARTING, None, None, False)
    assert (worker.failures, worker.instance_id) == (2, "i-1")
    assert worker.phase is WorkerPhase.STARTING
