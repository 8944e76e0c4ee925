"""One gateway's calls in a router of its own process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from control_plane.contracts.call import CallSink, HopSink, PlacedSink, RoutedCall, TokenizerBundle
from control_plane.contracts.errors import Conflict, InferDeckError, NotFound, Unavailable
from control_plane.contracts.fleet import ModelView
from control_plane.contracts.worker import Delta, Done, Sampling
from control_plane.router import gateway_stream
from control_plane.router.gateway_stream import GATEWAY_LOST, GatewayStream


@dataclass
class Handle:
    worker_id: str = ""
    cancelled: list[str] = field(default_factory=list)
    used: Callable[[int], None] | None = None

    def cancel(self, reason: str, used: Callable[[int], None] | None = None) -> None:
        self.cancelled.append(reason)
        self.used = used


class FakeRouter:
    """Takes every call, but for ids in use and the model "nope"."""

    def __init__(self) -> None:
        self.sinks: dict[str, CallSink] = {}
        self.handles: dict[str, Handle] = {}

    def submit(self, call: RoutedCall, sink: CallSink) -> Handle:
        if call.model == "nope":
            raise NotFound("no such model")
        if call.model == "broken":
            raise ZeroDivisionError
        if call.request_id in self.sinks:
            raise Conflict("in use")
        self.sinks[call.request_id] = sink
        self.handles[call.request_id] = Handle()
        return self.handles[call.request_id]

    def models(self) -> Sequence[ModelView]:
        return ()

    def ready(self) -> bool:
        return True

    async def tokenizer_files(self, model: str) -> TokenizerBundle:
        raise Unavailable("none")


def call(request_id: str = "a", model: str = "tiny") -> RoutedCall:
    return RoutedCall(request_id, model, (1,), Sampling(4), stream=True, arrival_unix=0.0, arrival_mono=0.0)


@pytest.fixture
def router() -> FakeRouter:
    return FakeRouter()


@pytest.fixture
def stream(router: FakeRouter) -> GatewayStream:
    made = GatewayStream(router)
    made.greet("g1")
    return made


async def test_what_comes_in_one_turn_goes_out_in_one_batch_by_the_gateways_numbers(
    stream: GatewayStream, router: FakeRouter
) -> None:
    stream.submit(7, call("a"))
    stream.submit(9, call("b"))
    sink = router.sinks["a"]
    assert isinstance(sink, PlacedSink)
    sink.placed("w1", 0)
    sink.delta(Delta(1, (5,), "x"))
    router.sinks["b"].failed(NotFound("gone"))
    sink.delta(Delta(1, (6,), "y", done=Done(1, 0, 2)))
    taken = await stream.take()
    assert taken is not None
    batch, news = taken
    assert news
    assert batch.placed == {7: ("w1", 0)}
    assert [(delta.call, delta.text) for delta in batch.deltas] == [(7, "x"), (7, "y")]
    assert [(number, error.message) for number, error in batch.refusals] == [(9, "gone")]
    assert len(stream) == 0
    assert (stream.requests, stream.tokens) == (2, 2)


async def test_a_batch_says_when_deltas_left_their_worker_only_of_calls_that_asked(
    stream: GatewayStream, router: FakeRouter
) -> None:
    stream.submit(7, replace(call("a"), hops=True))
    stream.submit(9, call("b"))
    asked, other = router.sinks["a"], router.sinks["b"]
    assert isinstance(asked, HopSink)
    assert not isinstance(other, HopSink)
    for number, worker_unix in enumerate((100.5, 100.75)):
        asked.passed(worker_unix, 0.0)
        asked.delta(Delta(1, (number,), "x"))
    other.delta(Delta(2, (5,), "x"))
    taken = await stream.take()
    assert taken is not None
    assert taken[0].hops == [(7, 100.5), (7, 100.75)]
    assert len(taken[0].deltas) == 3


async def test_a_refusal_at_once_and_a_failure_that_nobody_expected_are_both_told(stream: GatewayStream) -> None:
    stream.submit(1, call(model="nope"))
    stream.submit(2, call(model="broken"))
    taken = await stream.take()
    assert taken is not None
    told: dict[int, InferDeckError] = dict(taken[0].refusals)
    assert (told[1].code, told[2].code) == ("not_found", "internal_error")
    assert len(stream) == 0


def test_two_gateways_may_use_the_same_request_id(router: FakeRouter) -> None:
    first, second = GatewayStream(router), GatewayStream(router)
    first.submit(1, call("same"))
    second.submit(1, call("same"))
    assert len(second) == 1
    (other,) = set(router.sinks) - {"same"}
    assert other.startswith("same-")


async def test_last_words_are_told_to_who_asked_for_them(stream: GatewayStream, router: FakeRouter) -> None:
    stream.submit(1, call("a"))
    stream.submit(2, call("b"))
    stream.withdraw(1, "client_left", tell_used=True)
    stream.withdraw(2, "client_left", tell_used=False)
    stream.withdraw(2, "client_left", tell_used=False)
    assert router.handles["b"].cancelled == ["client_left"]
    assert router.handles["b"].used is None
    told = router.handles["a"].used
    assert told is not None
    told(31)
    taken = await stream.take()
    assert taken is not None
    assert taken[0].last_words == [(1, 31)]


def test_a_gateway_that_goes_takes_its_calls_with_it(stream: GatewayStream, router: FakeRouter) -> None:
    stream.submit(1, call("a"))
    stream.submit(2, call("b"))
    stream.withdraw_all()
    assert [handle.cancelled for handle in router.handles.values()] == [[GATEWAY_LOST]] * 2
    assert len(stream) == 0


def test_a_call_that_cannot_be_withdrawn_keeps_no_other_from_it(
    stream: GatewayStream, router: FakeRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.submit(1, call("a"))
    stream.submit(2, call("b"))
    monkeypatch.setattr(router.handles["a"], "cancel", lambda *_: 1 / 0)
    stream.withdraw_all()
    assert router.handles["b"].cancelled == [GATEWAY_LOST]
    assert len(stream) == 0


def test_one_that_does_not_read_is_given_up(router: FakeRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_stream, "BACKLOG", 10)
    overruns: list[bool] = []
    stream = GatewayStream(router, lambda: overruns.append(True))
    stream.submit(1, call("a"))
    for _ in range(30):
        router.sinks["a"].delta(Delta(1, (5,), "x"))
    assert overruns == [True]
    assert stream.overrun


async def test_nothing_is_told_before_the_gateway_has_said_who_it_is(router: FakeRouter) -> None:
    stream = GatewayStream(router)
    stream.nudge()
    stream.close()
    assert await stream.take() is None
