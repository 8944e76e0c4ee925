"""The table of design: what each tier meets in each band."""

from __future__ import annotations

import pytest

from control_plane.contracts.admission import Band
from control_plane.router.admission import Verdict, decide, may_go
from tests.unit.router.tiers import service

D, W, T, R = Verdict.DISPATCH, Verdict.WAIT, Verdict.THROTTLE, Verdict.REFUSE


@pytest.mark.parametrize(
    ("tier", "verdicts"),
    [("enterprise", (D, D, D, W)), ("paid", (D, D, W, W)), ("free", (D, D, T, R))],
)
def test_what_a_call_of_each_tier_meets_in_each_band(tier: str, verdicts: tuple[Verdict, ...]) -> None:
    bands = (Band.GOOD, Band.WATCH, Band.BUSY, Band.REJECT)
    assert tuple(decide(service(tier), band) for band in bands) == verdicts
    assert decide(service(tier), None) is D, "where nothing can be picked, it is tried, and waits"


@pytest.mark.parametrize("tier", ["enterprise", "paid", "free"])
def test_those_that_wait_go_when_their_class_may_or_is_owed(tier: str) -> None:
    own = service(tier)
    assert may_go(own, Band.WATCH, owed=False)
    assert may_go(own, Band.BUSY, owed=False) is (tier == "enterprise")
    assert may_go(own, Band.BUSY, owed=True)
    assert not may_go(own, Band.REJECT, owed=True)
