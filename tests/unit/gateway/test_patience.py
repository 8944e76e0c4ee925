"""What a call has left, of all its models together."""

from __future__ import annotations

import pytest

from control_plane.contracts.fleet import Stage
from control_plane.gateway.patience import Patience


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_the_wait_begins_when_it_is_first_asked_for(clock: Clock) -> None:
    patience = Patience(10.0, 99.0, clock)
    clock.now = 105.0
    assert patience.left_s() == 10.0
    clock.now = 108.0
    assert patience.left_s() == 7.0
    clock.now = 200.0
    assert patience.left_s() == 0.0, "never less than nothing"


def test_another_model_is_no_new_beginning(clock: Clock) -> None:
    patience = Patience(10.0, 99.0, clock)
    patience.left_s()
    clock.now = 104.0
    patience.leaves(100.5, 2, anew=False)
    assert patience.left_s() == 6.0
    assert patience.attempts == 2
    assert patience.stages == (Stage("queue", 1.5, 3.5),)


def test_a_call_that_a_worker_had_waits_anew(clock: Clock) -> None:
    patience = Patience(10.0, 99.0, clock)
    patience.left_s()
    clock.now = 130.0
    patience.leaves(128.0, 3, anew=True)
    assert patience.left_s() == 8.0
    clock.now = 131.0
    patience.leaves(130.0, 4, anew=False)
    assert patience.left_s() == 7.0
    assert [stage.name for stage in patience.stages] == ["queue", "queue"]


def test_without_a_deadline_it_waits_as_long_as_it_takes(clock: Clock) -> None:
    patience = Patience(None, 99.0, clock)
    clock.now = 1e6
    assert patience.left_s() is None
