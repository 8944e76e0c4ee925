"""A gateway without a router of its own: what becomes of calls whose router is lost."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from random import Random

import pytest

from control_plane.contracts.call import RoutedCall
from control_plane.contracts.errors import InternalError, RequestCancelled
from control_plane.contracts.fleet import (
    CancelOutcome,
    GatewayIdentity,
    GatewayStats,
    ModelView,
    RequestPhase,
    RouterEndpoint,
    RouterSet,
)
from control_plane.contracts.wire.routed import catalogue_to_wire
from control_plane.contracts.worker import Sampling
from control_plane.router.remote import router as router_module
from control_plane.router.remote.call import RemoteCall
from control_plane.router.remote.router import RemoteRouter
from control_plane.settings.model import RouterSettings
from tests.unit.router.stage import RecordingSink


@pytest.fixture
async def router() -> AsyncIterator[RemoteRouter]:
    """Two routers, r1 and r2, have said that they serve; nothing goes over a network."""
    made = RemoteRouter(
        gateway_id="g1",
        identity=lambda: GatewayIdentity("g1", os.getpid(), "", 0.0),
        fleet_address=lambda: None,
        operator_key=lambda: "",
        stats=lambda: GatewayStats(ready=True),
        settings=RouterSettings(),
        rng=Random(1),
    )
    made.routers(RouterSet(1, tuple(RouterEndpoint(name, "127.0.0.1:1") for name in ("r1", "r2"))))
    for link in made._links.values():
        view = ModelView("tiny", "pool", ready_workers=1)
        link._news(catalogue_to_wire(link.endpoint.id, (view,), joined=True, ready=True, draining=False, in_flight=0))
    yield made
    await made.close()


def submitted(router: RemoteRouter, count: int) -> Sequence[tuple[RemoteCall, RecordingSink]]:
    """Calls "0", "1", …, all at the same router."""
    calls: list[tuple[RemoteCall, RecordingSink]] = []
    others = [link for link in router._links.values() if link.endpoint.id != "r1"]
    for link in others:
        link.standing.draining = True
    for number in range(count):
        sink = RecordingSink()
        call = RoutedCall(str(number), "tiny", (1,), Sampling(4), stream=True, arrival_unix=0.0, arrival_mono=0.0)
        handle = router.submit(call, sink)
        assert isinstance(handle, RemoteCall)
        calls.append((handle, sink))
    for link in others:
        link.standing.draining = False
    return calls


async def test_a_call_that_cannot_be_taken_elsewhere_keeps_no_other_from_it(
    router: RemoteRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    continued = router_module.continued

    def trip(call: RoutedCall, said: Sequence[int]) -> RoutedCall:
        if call.request_id == "0":
            raise ZeroDivisionError
        return continued(call, said)

    monkeypatch.setattr(router_module, "continued", trip)
    (bad, bad_sink), (good, good_sink) = submitted(router, 2)
    lost = bad.link
    assert lost is not None
    lost._shut()
    router.link_down(lost, "gone")
    assert isinstance(bad_sink.error, InternalError)
    assert bad.link is None
    assert good.link is not None
    assert good.link.endpoint.id == "r2"
    assert good_sink.error is None


async def test_one_that_failed_on_its_way_is_at_no_router(
    router: RemoteRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = router._send

    def trip(call: RemoteCall, routed: RoutedCall) -> bool:
        send(call, routed)
        raise ZeroDivisionError

    ((call, sink),) = submitted(router, 1)
    monkeypatch.setattr(router, "_send", trip)
    lost = call.link
    assert lost is not None
    lost._shut()
    router.link_down(lost, "gone")
    assert isinstance(sink.error, InternalError)
    assert call.link is None
    assert all(not link.calls and not link.standing.own for link in router._links.values())


async def test_a_sink_may_cancel_others_while_it_is_told_of_a_lost_router(router: RemoteRouter) -> None:
    (first, sink), (second, other) = submitted(router, 2)
    first.attempts = 99
    sink.on_end = lambda: second.cancel("together")
    lost = first.link
    assert lost is not None
    lost._shut()
    router.link_down(lost, "gone")
    assert sink.error is not None
    assert not other.over
    assert all(not link.calls for link in router._links.values())


async def test_one_that_cannot_be_sent_keeps_none_behind_it_waiting(
    router: RemoteRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bad, bad_sink), (good, good_sink) = submitted(router, 2)
    other = next(link for link in router._links.values() if link.endpoint.id == "r2")
    other.standing.draining = True
    lost = bad.link
    assert lost is not None
    lost._shut()
    router.link_down(lost, "gone")
    assert len(router._queue) == 2
    rest_of = router._rest_of

    def trip(call: RemoteCall) -> RoutedCall:
        if call is bad:
            raise ZeroDivisionError
        return rest_of(call)

    monkeypatch.setattr(router, "_rest_of", trip)
    other.standing.draining = False
    router.news(other)
    assert isinstance(bad_sink.error, InternalError)
    assert good.link is other
    assert good_sink.error is None
    assert len(router._queue) == 0


async def test_an_operator_ends_what_a_silent_router_has_and_what_another_has_it_ends_itself(
    router: RemoteRouter,
) -> None:
    ((call, sink),) = submitted(router, 1)
    link = call.link
    assert link is not None
    assert router.cancel("0") == CancelOutcome("0", found=False)
    assert (call.link, sink.error) == (link, None)
    link.standing.missed = 1
    assert router.cancel("0") == CancelOutcome("0", found=True)
    assert isinstance(sink.error, RequestCancelled)
    assert not link.calls
    assert call.link is None
    assert [(view.id, view.phase) for view in router.account().ended] == [("0", RequestPhase.CANCELLED)]
    router.link_down(link, "gone")
    assert len(router._queue) == 0
    assert router.cancel("0") == CancelOutcome("0", found=False)
