from __future__ import annotations

import pytest

from control_plane.contracts.worker import WorkerState
from workers.status import WorkerStatus

READY, DRAINING, FAILED = WorkerState.READY, WorkerState.DRAINING, WorkerState.FAILED
LOADING, STOPPING = WorkerState.LOADING, WorkerState.STOPPING
ASLEEP, WAKING = WorkerState.ASLEEP, WorkerState.WAKING


@pytest.mark.parametrize(
    "path",
    [
        (READY, DRAINING, READY, DRAINING, STOPPING),
        (READY, FAILED),
        (READY, STOPPING, FAILED),
        (READY, ASLEEP, WAKING, READY, DRAINING, ASLEEP, WAKING, DRAINING),
        (READY, ASLEEP, WAKING, ASLEEP, STOPPING),
        (READY, ASLEEP, FAILED),
        (FAILED,),
        (STOPPING,),
    ],
)
async def test_moves_that_make_sense_are_made(path: tuple[WorkerState, ...]) -> None:
    status = WorkerStatus()
    for state in path:
        assert status.move(state)
        assert status.state is state


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ((), DRAINING),
        ((READY, STOPPING), READY),
        ((READY, STOPPING), DRAINING),
        ((READY, FAILED), READY),
        ((READY, FAILED), STOPPING),
        ((READY,), LOADING),
        ((READY,), WAKING),
        ((READY, STOPPING), ASLEEP),
    ],
)
async def test_moves_that_make_none_are_not(path: tuple[WorkerState, ...], refused: WorkerState) -> None:
    status = WorkerStatus()
    for state in path:
        status.move(state)
    before = status.state
    assert not status.move(refused)
    assert status.state is before


async def test_a_change_is_told_and_a_repeat_is_not() -> None:
    status = WorkerStatus()
    heard: list[WorkerState] = []
    status.listen(heard.append)
    with status.changes() as changed:
        status.move(READY, "first")
        assert changed.is_set()
        changed.clear()
        assert status.move(READY, "again")
        assert not changed.is_set()
    assert heard == [READY]
    assert status.reason == "first"


async def test_the_end_wakes_who_waits() -> None:
    status = WorkerStatus()
    with status.changes() as changed:
        status.end()
        assert changed.is_set()
    assert status.over
