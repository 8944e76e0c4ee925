"""What routers report, added up."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.contracts.fleet import MOST_ENDED, Histogram, RequestPhase, RequestView
from control_plane.contracts.histogram import LatencyHistogram
from control_plane.fleet.latency import SLOT_S, WINDOW_S, RollingLatency
from control_plane.fleet.requests import Requests


def view(request_id: str, worker_id: str = "w-1", gateway_id: str = "g1", **fields: Any) -> RequestView:
    given = {"phase": RequestPhase.DECODING} | fields
    return RequestView(request_id, gateway_id, "m", worker_id=worker_id, **given)


def test_a_report_replaces_the_gateways_last_one_and_no_others() -> None:
    requests = Requests()
    requests.report("g1", [view("a"), view("b", worker_id="w-2")], [])
    requests.report("g2", [view("c", gateway_id="g2")], [])
    assert requests.in_flight() == {"w-1": 2, "w-2": 1}
    requests.report("g1", [view("b", worker_id="w-2")], [view("a", phase=RequestPhase.FINISHED)])
    assert [each.id for each in requests.active()] == ["b", "c"]
    assert [each.id for each in requests.ended()] == ["a"]
    assert [each.id for each in requests.on("w-1")] == ["c"]
    requests.report("g1", [], [])
    requests.report("g2", [], [])
    assert requests.in_flight() == {}


def test_what_a_gateway_ends_no_silent_router_has_and_its_cancel_is_told_once() -> None:
    told: list[RequestView] = []
    requests = Requests(told.extend)
    requests.report("r1", [view("a"), view("a2")], [])
    requests.report("r2", [view("a", gateway_id="g2")], [])
    cancelled = view("a", worker_id="", phase=RequestPhase.CANCELLED)
    requests.report("g1", [], [cancelled])
    assert [(each.id, each.gateway_id) for each in requests.active()] == [("a2", "g1"), ("a", "g2")]
    requests.report("r1", [view("a2")], [view("a", phase=RequestPhase.CANCELLED)])
    assert list(requests.ended()) == told == [cancelled]
    requests.report("r3", [], [view("a2", phase=RequestPhase.FINISHED)])
    assert [each.gateway_id for each in requests.active()] == ["g2"]


def test_what_one_router_gave_up_may_go_on_at_another() -> None:
    requests = Requests()
    requests.report("r2", [view("a")], [])
    requests.report("r1", [], [view("a", phase=RequestPhase.CANCELLED, reason="gateway_lost")])
    assert [each.id for each in requests.active()] == ["a"]


def test_a_queued_request_counts_on_no_worker() -> None:
    requests = Requests()
    requests.report("g1", [view("a", worker_id="", phase=RequestPhase.QUEUED)], [])
    assert requests.in_flight() == {}
    assert len(requests.active()) == 1


def test_progress_is_tokens_that_were_not_there_before() -> None:
    requests = Requests()
    assert requests.report("g1", [view("a", output_tokens=0)], []) == set()
    assert requests.report("g1", [view("a", output_tokens=2)], []) == {"w-1"}
    assert requests.report("g1", [view("a", output_tokens=2)], []) == set()
    assert requests.report("g1", [view("a", worker_id="w-2", output_tokens=2)], []) == {"w-2"}
    assert requests.report("g1", [], [view("a", worker_id="w-2", output_tokens=3)]) == {"w-2"}
    assert requests.report("g1", [], [view("b", output_tokens=0)]) == set()


def test_requests_end_with_their_gateway() -> None:
    requests = Requests()
    requests.report("g1", [view("a"), view("b")], [])
    assert requests.gateway_lost("g1") == 2
    assert requests.gateway_lost("g1") == 0
    assert requests.active() == ()
    assert {(each.phase, each.reason) for each in requests.ended()} == {(RequestPhase.FAILED, "gateway_lost")}


def test_a_request_is_found_while_it_runs_and_a_while_longer() -> None:
    requests = Requests()
    requests.report("g1", [view("a")], [])
    assert requests.find("a") == view("a")
    ended = view("a", phase=RequestPhase.FINISHED)
    requests.report("g1", [], [ended])
    assert requests.find("a") == ended
    assert requests.find("b") is None
    requests.report("g1", [], [view(f"x{number}") for number in range(MOST_ENDED)])
    assert requests.find("a") is None
    assert len(requests.ended()) == MOST_ENDED


def histogram(*seconds: float) -> Histogram:
    measured = LatencyHistogram()
    for each in seconds:
        measured.add(each)
    return Histogram(measured.buckets)


def test_latencies_of_several_reports_are_merged_and_age() -> None:
    rolling = RollingLatency()
    rolling.add(100.0, histogram(0.1, 0.1), None)
    rolling.add(100.5, histogram(0.3), histogram(0.02))
    late = 100.0 + SLOT_S + 1
    rolling.add(late, None, histogram(0.04, 0.04))
    now = rolling.latency(late)
    assert (now.window_s, now.ttft_count, now.itl_count) == (WINDOW_S, 3, 3)
    assert now.ttft_p50 == pytest.approx(0.1, rel=0.03)
    assert now.ttft_p99 == pytest.approx(0.3, rel=0.03)
    assert now.itl_p50 == pytest.approx(0.04, rel=0.03)
    aged = rolling.latency(100.0 + WINDOW_S + 1)
    assert (aged.ttft_count, aged.itl_count) == (0, 2)
    assert rolling.latency(late + WINDOW_S + 1).itl_count == 0


def test_a_worker_without_measurements_has_no_latency() -> None:
    requests = Requests()
    assert requests.latency("w-1", 0.0) is None
    requests.measured("w-1", 1.0, histogram(0.1), None)
    assert requests.latency("w-1", 1.0) is not None
    requests.worker_forgotten("w-1")
    assert requests.latency("w-1", 1.0) is None
