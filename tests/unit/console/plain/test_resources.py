"""How members stand, in a word."""

from __future__ import annotations

from console.plain.resources import gateway_status, router_status
from control_plane.contracts.fleet import GatewayView, RouterView


def test_one_that_hangs_is_lost_whatever_it_said_last() -> None:
    assert gateway_status(GatewayView("g1", 7, "", ready=False, lost=True)) == "lost"
    assert gateway_status(GatewayView("g1", 7, "", ready=False)) == "not ready"
    assert router_status(RouterView("r1", 7, "", ready=False, draining=True, lost=True)) == "lost"
    assert router_status(RouterView("r1", 7, "", ready=False, draining=True)) == "draining"
    assert router_status(RouterView("r1", 7, "", ready=True)) == "ready"
