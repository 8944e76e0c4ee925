from __future__ import annotations

from control_plane.contracts.failure import Failure, FailureKind
from workers.engine.sim.failures import Failures


def test_a_failure_has_a_beginning_and_an_end() -> None:
    failures = Failures()
    failures.add(Failure(FailureKind.STALL, after_s=5, for_s=2), now=100.0)
    assert [failures.on(FailureKind.STALL, now) for now in (104.9, 105.0, 106.9, 107.0, 200.0)] == [
        False,
        True,
        True,
        False,
        False,
    ]


def test_without_an_end_it_stays_until_it_is_cleared() -> None:
    failures = Failures()
    failures.add(Failure(FailureKind.DROP_STEPS), now=1.0)
    assert failures.on(FailureKind.DROP_STEPS, 1e9)
    failures.clear()
    assert failures.active(1.0) == ()


def test_those_to_come_are_told_and_those_that_are_over_are_not() -> None:
    failures = Failures()
    failures.add(Failure(FailureKind.STALL, after_s=5, for_s=2), now=100.0)
    assert [len(failures.all(now)) for now in (100.0, 106.0, 107.0)] == [1, 1, 0]


def test_slowness_multiplies() -> None:
    failures = Failures()
    failures.add(Failure(FailureKind.SLOW, factor=3), now=0.0)
    failures.add(Failure(FailureKind.SLOW, factor=2, for_s=1), now=0.0)
    assert [failures.slowness(now) for now in (0.5, 1.5)] == [6.0, 3.0]
