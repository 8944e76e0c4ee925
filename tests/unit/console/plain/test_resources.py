"""How members stand, in a word, and what a request's row says."""

from __future__ import annotations

from console.plain.resources import cached_of, gateway_status, router_status
from control_plane.contracts.fleet import GatewayView, RequestPhase, RouterView
from tests.unit.console.fake_operator import request


def test_one_that_hangs_is_lost_whatever_it_said_last() -> None:
    assert gateway_status(GatewayView("g1", 7, "", ready=False, lost=True)) == "lost"
    assert gateway_status(GatewayView("g1", 7, "", ready=False)) == "not ready"
    assert router_status(RouterView("r1", 7, "", ready=False, draining=True, lost=True)) == "lost"
    assert router_status(RouterView("r1", 7, "", ready=False, draining=True)) == "draining"
    assert router_status(RouterView("r1", 7, "", ready=True)) == "ready"


def test_what_was_cached_is_unknown_until_it_is_told() -> None:
    assert cached_of(request("r", phase=RequestPhase.DECODING, cached_tokens=0)) == "–"
    assert cached_of(request("r", phase=RequestPhase.FINISHED, cached_tokens=0)) == "0"
    assert cached_of(request("r", phase=RequestPhase.FINISHED, cached_tokens=224)) == "224"
