"""Requests whose callers asked when each token passed by."""

from __future__ import annotations

from dataclasses import replace

from control_plane.router.requests import Request
from control_plane.router.timed_request import TimedRequest
from tests.unit.router.stage import RecordingSink, Stage


class Hears(RecordingSink):
    """``way`` is what was told, each with how many deltas had come by then."""

    def __init__(self) -> None:
        super().__init__()
        self.way: list[tuple[float, float, int]] = []

    def passed(self, worker_unix: float, router_unix: float) -> None:
        self.way.append((worker_unix, router_unix, len(self.deltas)))


def submitted(stage: Stage, *, hops: bool = True) -> tuple[Request, Hears]:
    sink = Hears()
    call = replace(stage.call("r"), hops=hops, arrival_unix=5000.0)
    return stage.dispatcher.submit(call, sink), sink


def test_each_deltas_way_is_told_before_it() -> None:
    stage = Stage()
    stage.start("w1")
    request, sink = submitted(stage)
    assert isinstance(request, TimedRequest)
    link = stage.link("w1")
    for number in range(2):
        stage.now += 0.5
        link.target.sent_unix = 6000.0 + number
        link.token("r")
    link.target.sent_unix = 6002.0
    link.finish("r", 3)
    assert sink.way == [(6000.0, 5000.5, 0), (6001.0, 5001.0, 1), (6002.0, 5001.0, 2)]
    assert len(sink.deltas) == 3


def test_who_did_not_ask_hears_nothing() -> None:
    stage = Stage()
    stage.start("w1")
    request, sink = submitted(stage, hops=False)
    assert type(request) is Request
    stage.link("w1").token("r")
    stage.link("w1").finish("r", 2)
    assert sink.way == []
    assert sink.done


def test_a_failed_attempt_is_no_delta() -> None:
    stage = Stage()
    stage.start("w1", "w2")
    _, sink = submitted(stage)
    first = next(link for link in stage.links if link.running)
    first.fail("r", "engine_dead")
    assert sink.way == []
    second = next(link for link in stage.links if link.running)
    second.token("r")
    assert len(sink.way) == len(sink.deltas) == 1
