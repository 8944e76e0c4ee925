"""Routers that are processes of their own, as the fleet knows them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from control_plane.contracts.fleet import (
    CancelOutcome,
    GatewayIdentity,
    Member,
    RequestPhase,
    RequestView,
    RouterEndpoint,
    RouterReport,
)
from control_plane.fleet import routers as routers_module
from control_plane.fleet.changes import Changes
from control_plane.fleet.events import Events
from control_plane.fleet.members import MemberProcess
from control_plane.fleet.requests import Requests
from control_plane.fleet.router_processes import RouterProcesses
from control_plane.fleet.routers import LOST_TURNS, Routers, Session
from control_plane.settings import Home, RouterSettings
from control_plane.store import Database, EventLog

ROUTER = GatewayIdentity("r1", 7, "127.0.0.1:9001", 0.0, Member.ROUTER, secure=True)
GATEWAY = GatewayIdentity("g1", 8, "http://127.0.0.1:1", 0.0)
REQUEST = RequestView("q", "g1", "tiny", RequestPhase.DECODING, "w1", output_tokens=3, router_id="r1")


@pytest.fixture
def requests() -> Requests:
    return Requests()


@pytest.fixture
def routers(requests: Requests) -> Routers:
    return Routers(requests, Changes(), lambda worker_id: None)


def test_gateways_are_told_of_routers_that_have_joined_and_of_nothing_else(routers: Routers) -> None:
    session = routers.join(ROUTER)
    routers.join(GATEWAY)
    assert routers.endpoints() == (RouterEndpoint("r1", "127.0.0.1:9001", secure=True),)
    routers.leave(session)
    assert routers.endpoints() == ()


def test_the_requests_of_a_router_do_not_end_with_it(routers: Routers, requests: Requests) -> None:
    """The gateway takes them elsewhere, and says of those that end."""
    session = routers.join(ROUTER)
    routers.report(session, RouterReport(active=(REQUEST,)))
    assert [view.id for view in requests.on("w1")] == ["q"]
    assert routers.lost("r1") == 0
    assert requests.active() == requests.ended() == ()


def test_a_router_that_was_started_anew_has_none_of_the_old_ones_requests(routers: Routers, requests: Requests) -> None:
    session = routers.join(ROUTER)
    routers.report(session, RouterReport(active=(REQUEST,)))
    routers.join(replace(ROUTER, pid=9))
    assert requests.active() == requests.ended() == ()


def test_those_of_a_gateway_do(routers: Routers, requests: Requests) -> None:
    session = routers.join(GATEWAY)
    routers.report(session, RouterReport(active=(REQUEST,)))
    assert routers.lost("g1") == 1
    assert [view.reason for view in requests.ended()] == ["gateway_lost"]


@pytest.mark.parametrize(
    ("host", "port", "url", "certificate", "fits"),
    [
        ("127.0.0.1", 0, "127.0.0.1:4000", "", True),
        ("127.0.0.1", 9000, "127.0.0.1:9001", "", True),
        ("127.0.0.1", 9000, "127.0.0.1:9000", "", False),
        ("0.0.0.0", 0, "127.0.0.1:4000", "r2.pem", True),
        ("0.0.0.0", 0, "127.0.0.1:4000", "", False),
        ("127.0.0.1", 0, "10.0.0.1:4000", "", False),
        ("127.0.0.1", 0, "", "", True),
    ],
)
async def test_one_that_listens_elsewhere_than_the_settings_say_is_not_taken_over(
    tmp_path: Path, host: str, port: int, url: str, certificate: str, fits: bool
) -> None:
    changes = Changes()
    database = Database.open("", tmp_path / "x.db")
    events = Events(EventLog(database), changes)
    settings = RouterSettings(replicas=2, host=host, port=port)
    made = RouterProcesses(
        settings, "auto", Home(tmp_path), None, events, Routers(Requests(), changes, lambda worker_id: None), changes
    )
    assert [member.id for member in made.all()] == ["r1", "r2"]
    assert made.fits(MemberProcess("r2", url), {"certificate": certificate}) is fits
    await events.close()
    database.close()


async def answered(routers: Routers, session: Session, outcome: CancelOutcome) -> None:
    assert await session.cancels.get() == "q"
    routers.report(session, RouterReport(cancels=(outcome,)))


async def test_those_that_answer_are_asked_again_where_one_does_not(
    routers: Routers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then a gateway knows that the router is silent."""
    monkeypatch.setattr(routers_module, "CANCEL_TIMEOUT_S", 0.05)
    silent, front = routers.join(ROUTER), routers.join(replace(GATEWAY, kind=Member.FRONT))
    asked = asyncio.create_task(routers.cancel("q"))
    await answered(routers, front, CancelOutcome("q", found=False))
    await answered(routers, front, CancelOutcome("q", found=True))
    assert await asked == (CancelOutcome("q", found=True), False)
    assert silent.cancels.qsize() == 1


async def test_a_router_that_gave_it_up_does_not_answer_for_the_one_that_has_it(routers: Routers) -> None:
    former, now = routers.join(ROUTER), routers.join(replace(ROUTER, id="r2"))
    asked = asyncio.create_task(routers.cancel("q"))
    await answered(routers, former, CancelOutcome("q", found=True, already_ended=True))
    await answered(routers, now, CancelOutcome("q", found=True))
    assert await asked == (CancelOutcome("q", found=True), True)


def test_one_that_reports_nothing_any_more_is_lost_until_it_does(requests: Requests) -> None:
    told: list[tuple[str, bool]] = []
    routers = Routers(
        requests, Changes(), lambda worker_id: None, on_silence=lambda each: told.append((each.identity.id, each.lost))
    )
    hung, lively = routers.join(ROUTER), routers.join(GATEWAY)

    def turn(count: int) -> None:
        for _ in range(count):
            routers.expire(0.0)
            routers.report(lively, RouterReport())

    turn(LOST_TURNS - 1)
    assert not hung.lost
    turn(LOST_TURNS)
    assert (hung.lost, lively.lost, told) == (True, False, [("r1", True)])
    routers.report(hung, RouterReport())
    assert (hung.lost, told[1:]) == (False, [("r1", False)])
    turn(LOST_TURNS)
    routers.leave(hung)
    turn(LOST_TURNS)
    assert not routers.join(ROUTER).lost
    assert told[2:] == [("r1", True), ("r1", False)]
