from __future__ import annotations

from typing import Any

import pytest

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.failure import Failure, FailureKind, failure_kind, read_failure


def test_a_kind_alone_will_do_and_all_can_be_spelt_out() -> None:
    assert read_failure("crash") == Failure(FailureKind.CRASH)
    assert read_failure({"kind": "slow", "after_s": 1, "factor": 4}) == Failure(FailureKind.SLOW, 1, 0, 4)


@pytest.mark.parametrize(
    ("values", "param"),
    [
        ("explode", "kind"),
        ({"kind": "slow", "by": 3}, "by"),
        ({"kind": "slow", "factor": 0}, "factor"),
        ({"kind": "slow", "factor": True}, "factor"),
        ({"kind": "stall", "for_s": -1}, "for_s"),
        ({"kind": "stall", "for_s": float("nan")}, "for_s"),
        (7, "failures"),
        ({}, "failures"),
    ],
)
def test_what_is_none_is_refused_by_name(values: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_failure(values)
    assert refused.value.param == param


def test_an_unknown_kind_hears_of_those_there_are() -> None:
    with pytest.raises(InvalidRequest, match="crash, engine_dies, stall, slow, drop_steps, drop_events, freeze_load"):
        failure_kind("explode")
