from __future__ import annotations

from typing import Any

import pytest

from control_plane.contracts.errors import SettingsError
from workers.engine.sim.failure import Failure, FailureKind, Failures


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


def test_slowness_multiplies() -> None:
    failures = Failures()
    failures.add(Failure(FailureKind.SLOW, factor=3), now=0.0)
    failures.add(Failure(FailureKind.SLOW, factor=2, for_s=1), now=0.0)
    assert [failures.slowness(now) for now in (0.5, 1.5)] == [6.0, 3.0]


def test_settings_may_name_one_or_spell_it_out() -> None:
    assert Failure.read("crash") == Failure(FailureKind.CRASH)
    assert Failure.read({"kind": "slow", "after_s": 1, "factor": 4}) == Failure(FailureKind.SLOW, 1, 0, 4)


@pytest.mark.parametrize(
    "values",
    ["explode", {"kind": "slow", "by": 3}, {"kind": "slow", "factor": 0}, {"kind": "stall", "for_s": -1}, 7, {}],
)
def test_what_is_none_is_refused(values: Any) -> None:
    with pytest.raises(SettingsError):
        Failure.read(values)
