"""What follows from a worker as it is seen: whether it is idle, and drained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.fleet import WorkerPhase, WorkerView
from control_plane.contracts.worker import Load, WorkerState

EMPTY = Load("i-1", 1.0, WorkerState.DRAINING)
DRAINED = WorkerView("w", "p", WorkerPhase.READY, cordoned=True, draining=True, load=EMPTY)


@pytest.mark.parametrize(
    ("changes", "drained"),
    [
        ({}, True),
        ({"draining": False}, False),
        ({"in_flight": 1}, False),
        ({"load": replace(EMPTY, running=1)}, False),
        ({"load": replace(EMPTY, waiting=1)}, False),
        ({"load": None}, False),
        ({"phase": WorkerPhase.LOST}, False),
        ({"phase": WorkerPhase.UNSPECIFIED}, False),
        ({"phase": WorkerPhase.STOPPING}, True),
        ({"phase": WorkerPhase.STARTING, "load": None}, True),
        ({"phase": WorkerPhase.FAILED, "load": None}, True),
        ({"phase": WorkerPhase.FAILED, "in_flight": 2}, False),
    ],
)
def test_a_worker_is_drained_when_it_was_told_to_and_nothing_is_left(changes: dict[str, Any], drained: bool) -> None:
    assert replace(DRAINED, **changes).drained is drained


@given(
    phase=st.sampled_from(WorkerPhase),
    draining=st.booleans(),
    in_flight=st.integers(0, 2),
    running=st.integers(0, 2),
    waiting=st.integers(0, 2),
)
def test_nothing_that_counts_a_request_is_drained(
    phase: WorkerPhase, draining: bool, in_flight: int, running: int, waiting: int
) -> None:
    load = replace(EMPTY, running=running, waiting=waiting)
    view = replace(DRAINED, phase=phase, draining=draining, in_flight=in_flight, load=load)
    if view.drained:
        assert draining
        assert not in_flight
        assert phase is not WorkerPhase.LOST
        assert phase is not WorkerPhase.READY or not running + waiting
