from __future__ import annotations

from control_plane.contracts.pressure import Pressure
from control_plane.fleet.pressures import pressures_by_model


def test_the_fullest_that_a_router_sees_counts_and_all_that_wait() -> None:
    routers = [
        [Pressure("m", "busy", 0.83, 2, 0, 0.4, {"paid": 2}), Pressure("other")],
        [Pressure("m", "watch", 0.78, 2, 1, 5.0, {"paid": 1, "free": 1})],
        [Pressure("m", queued={"enterprise": 1})],
    ]
    merged = pressures_by_model(routers)
    assert merged["m"] == Pressure("m", "busy", 0.83, 2, 0, 0.4, {"paid": 3, "free": 1, "enterprise": 1})
    assert merged["other"] == Pressure("other")


def test_without_routers_nothing_is_known() -> None:
    assert pressures_by_model([]) == {}
