from __future__ import annotations

from dataclasses import replace

import pytest

from console.tui.live.rates import Rate, RateMeter
from control_plane.contracts.fleet import GatewayView, Snapshot
from tests.snapshots.memory import NOW, snapshot


def gateway(second: float, total: int, name: str = "g1", **changes: object) -> GatewayView:
    view = GatewayView(name, 1, "", True, started_unix=NOW - 100, report_unix=NOW + second, requests_total=total)
    return replace(view, **changes)  # type: ignore[arg-type]


def heard(*gateways: GatewayView) -> Snapshot:
    return snapshot(NOW, workers=0, requests=0, gateways=gateways)


def test_a_rate_is_unknown_until_two_totals_lie_apart() -> None:
    meter = RateMeter()
    assert meter.add(heard(gateway(0, 100))).total == Rate()
    assert meter.add(heard(gateway(1, 150))).total == Rate()
    assert meter.add(heard(gateway(2, 200))).total.requests == 50.0


def test_the_window_is_ten_seconds() -> None:
    meter = RateMeter()
    for second in range(21):
        rates = meter.add(heard(gateway(second, 10 * second if second <= 10 else 100)))
    assert rates.total.requests == 0.0


def test_answers_are_told_apart() -> None:
    meter = RateMeter()
    meter.add(heard(gateway(0, 0, responses={200: 10, 429: 0})))
    rates = meter.add(heard(gateway(4, 100, responses={200: 80, 429: 8, 404: 2, 499: 10, 503: 4}, cpu_s=2.0)))
    assert rates.total == Rate(requests=25.0, refused=2.5, errors=1.0, cpu=0.5)


def test_a_gateway_that_started_anew_starts_from_nothing() -> None:
    meter = RateMeter()
    meter.add(heard(gateway(0, 5000)))
    assert meter.add(heard(gateway(5, 3, started_unix=NOW + 4))).total == Rate()


def test_a_total_that_fell_is_no_rate() -> None:
    meter = RateMeter()
    meter.add(heard(gateway(0, 5000)))
    assert meter.add(heard(gateway(5, 3))).total == Rate()


def test_several_gateways_add_up_once_all_are_known() -> None:
    meter = RateMeter()
    meter.add(heard(gateway(0, 0), gateway(0, 0, "g2")))
    rates = meter.add(heard(gateway(2, 10), gateway(2, 30, "g2"), gateway(2, 5, "g3")))
    assert rates.gateways["g2"].requests == 15.0
    assert rates.total.requests is None
    rates = meter.add(heard(gateway(4, 20), gateway(4, 60, "g2"), gateway(4, 5, "g3")))
    assert rates.total.requests == pytest.approx(5 + 15 + 0)
