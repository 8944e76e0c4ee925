"""Streams that say when their tokens passed by."""

from __future__ import annotations

import json
from typing import Any

from control_plane.contracts.worker import Delta, Done, Finish, FinishReason
from control_plane.gateway.answer.events import ChatEvents, CompletionEvents, Events
from control_plane.gateway.answer.heading import Heading
from control_plane.gateway.answer.hops import HopEvents, HopStreamSink, KeptHopStreamSink
from control_plane.gateway.answer.sink import Shape
from control_plane.gateway.answer.stream_sink import StreamSink
from tests.unit.gateway.fakes import Wire, exchange_on
from tests.unit.gateway.test_sinks import Owner

HEADING = Heading("id", 1, "m", "fp")
END = Delta(0, (4,), "c", finish=Finish(FinishReason.LENGTH, 3), done=Done(3, 0, 3))


SHAPE = Shape(1, logprobs=False, control_ids=frozenset())


class Rig:
    def __init__(self, events: Events, kind: type[HopStreamSink] = HopStreamSink, turn: Any = None) -> None:
        self.wire = Wire()
        self.exchange = exchange_on(self.wire)
        self.sink = kind(Owner(), self.exchange, HopEvents(events, 1000.0), Owner(), SHAPE, turn)

    def passed(self, *times: float) -> None:
        self.sink.passed(*times)

    @property
    def events(self) -> list[Any]:
        return events_on(self.wire)


def events_on(wire: Wire) -> list[Any]:
    blocks = wire.data.partition(b"\r\n\r\n")[2].split(b"\n\n")
    return [json.loads(block.removeprefix(b"data: ")) for block in blocks if block and b"[DONE]" not in block]


def hops(rig: Rig) -> list[tuple[int, float, float]]:
    told = [event["hops"] for event in rig.events if "hops" in event]
    assert all(set(each) == {"tokens", "worker", "router", "gateway"} for each in told)
    assert all(each["gateway"] > 1e6 for each in told), "the real clock is long after 1000"
    return [(each["tokens"], each["worker"], each["router"]) for each in told]


def test_each_event_with_text_has_the_way_of_its_own_token() -> None:
    for events in (ChatEvents(HEADING, with_usage=True), CompletionEvents(HEADING, with_usage=False)):
        rig = Rig(events)
        # A frame may bring the way of several deltas before them.
        rig.passed(1000.25, 1000.5)
        rig.passed(1001.25, 1001.5)
        rig.sink.delta(Delta(0, (2,), "a"))
        rig.sink.delta(Delta(0, (3,), "b"))
        rig.passed(1002.25, 1002.5)
        rig.sink.delta(END)
        assert hops(rig) == [(1, 0.25, 0.5), (2, 1.25, 1.5), (3, 2.25, 2.5)]
        assert [list(event)[-1] for event in rig.events if "hops" in event] == ["hops"] * 3


def test_but_for_that_it_is_the_same_stream() -> None:
    for make in (
        lambda: ChatEvents(HEADING, with_usage=True),
        lambda: CompletionEvents(HEADING, with_usage=True),
        lambda: CompletionEvents(HEADING, with_usage=False, echo="before"),
    ):
        asked, wire = Rig(make()), Wire()
        plain = StreamSink(Owner(), exchange_on(wire), make(), Owner(), SHAPE)
        for delta in (Delta(0, (2,), "a\n"), Delta(0, (3,), ""), END):
            asked.sink.delta(delta)
            plain.delta(delta)
        told = [{name: event[name] for name in event if name != "hops"} for event in asked.events]
        assert told == events_on(wire)


def test_a_slow_reader_gets_the_way_of_the_last_token() -> None:
    rig = Rig(ChatEvents(HEADING, with_usage=False))
    rig.passed(1000.25, 1000.5)
    rig.sink.delta(Delta(0, (2,), "a"))
    rig.exchange.paused = True
    for number in (1, 2):
        rig.passed(1000.25 + number, 1000.5 + number)
        rig.sink.delta(Delta(0, (2,), "b"))
    rig.exchange.paused = False
    assert rig.exchange.on_drained is not None
    rig.exchange.on_drained()
    assert hops(rig) == [(1, 0.25, 0.5), (3, 2.25, 2.5)]


class Turn:
    delivered = False

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, text: str) -> None:
        self.texts.append(text)

    def end(self, status: object, reason: str = "", done: object = None, then: Any = None) -> None:
        then()

    def withdraw(self, then: Any = None) -> None:
        then()


def test_what_is_kept_is_the_text() -> None:
    turn = Turn()
    rig = Rig(ChatEvents(HEADING, with_usage=False), KeptHopStreamSink, turn)
    rig.passed(1000.25, 1000.5)
    rig.sink.delta(Delta(0, (2,), "a"))
    rig.passed(1001.25, 1001.5)
    rig.sink.delta(END)
    assert turn.texts == ["a", "c"]
    assert hops(rig)[0] == (1, 0.25, 0.5)


def test_the_gateways_own_time_is_that_of_the_event() -> None:
    events = HopEvents(ChatEvents(HEADING, with_usage=False), 10.0, clock=lambda: 10.125)
    events.passed(10.0, 10.0625)
    events.next(1)
    event = json.loads(events.with_logprobs(0, "x", ()).removeprefix("data: "))
    assert event["hops"] == {"tokens": 1, "worker": 0.0, "router": 0.0625, "gateway": 0.125}


def test_of_a_way_that_no_router_tells_nothing_is_said() -> None:
    """Not the times of the token before, which another router told."""
    rig = Rig(ChatEvents(HEADING, with_usage=False))
    rig.sink.delta(Delta(0, (2,), "a"))
    rig.passed(1000.25, 1000.5)
    rig.sink.delta(Delta(0, (2,), "b"))
    rig.sink.delta(END)
    told = [event["hops"] for event in rig.events if "hops" in event]
    assert [set(each) for each in told] == [
        {"tokens", "gateway"},
        {"tokens", "worker", "router", "gateway"},
        {"tokens", "gateway"},
    ]
