from __future__ import annotations

from dataclasses import replace

import pytest

from control_plane.contracts.fleet import Pool, Snapshot, WorkerPhase
from lessons.changing import still_changing
from tests.unit.lessons.seen import observation, worker

READY = worker("w-1")


def platform(*phases: WorkerPhase, desired: int = 2) -> Snapshot:
    workers = (READY, *(worker(f"w-{number}", phase=phase) for number, phase in enumerate(phases, 2)))
    return replace(observation(workers=workers).snapshot, pools=(Pool("w", "m", "sim", desired),))


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (platform(WorkerPhase.READY), ""),
        (platform(WorkerPhase.LOST), ""),
        (platform(WorkerPhase.STARTING), "w-2 was not ready yet: look again in a moment."),
        (platform(WorkerPhase.STOPPING, desired=1), "w-2 was still stopping: look again in a moment."),
        (platform(), "2 workers are wanted, 1 were there: look again in a moment."),
        (platform(desired=1), ""),
    ],
)
def test_a_platform_on_its_way_says_what_is_not_there_yet(seen: Snapshot, said: str) -> None:
    assert still_changing(seen) == said
