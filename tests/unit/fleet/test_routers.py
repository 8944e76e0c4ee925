from __future__ import annotations

from control_plane.contracts.fleet import GatewayIdentity, GatewayStats, RouterReport
from control_plane.contracts.kv_belief import KvBelief
from control_plane.fleet.changes import Changes
from control_plane.fleet.requests import Requests
from control_plane.fleet.routers import MOST_BELIEFS, Routers


def test_a_store_of_limits_that_goes_and_comes_back_is_told_once_each() -> None:
    told: list[tuple[str, str]] = []
    routers = Routers(Requests(), Changes(), lambda worker_id: None, lambda *what: told.append(what))
    session = routers.join(GatewayIdentity("g1", 7, "http://127.0.0.1:1", 0.0))
    for state in ("up", "up", "down", "down", "up"):
        routers.report(session, RouterReport(stats=GatewayStats(limit_store=state)))
    assert told == [("g1", "down"), ("g1", "up")]


def test_a_gateway_that_counts_for_itself_has_nothing_to_tell() -> None:
    told: list[tuple[str, str]] = []
    routers = Routers(Requests(), Changes(), lambda worker_id: None, lambda *what: told.append(what))
    session = routers.join(GatewayIdentity("g1", 7, "http://127.0.0.1:1", 0.0))
    routers.report(session, RouterReport(stats=GatewayStats()))
    assert told == []


def test_the_last_word_on_each_prefix_cache_is_kept_and_no_more_than_so_many() -> None:
    routers = Routers(Requests(), Changes(), lambda worker_id: None)
    session = routers.join(GatewayIdentity("g1", 7, "http://127.0.0.1:1", 0.0))
    for blocks in (1, 2):
        routers.report(session, RouterReport(kv_beliefs=(KvBelief("w1", blocks=blocks),)))
    routers.report(session, RouterReport())
    assert session.kv_beliefs == {"w1": KvBelief("w1", "g1", blocks=2)}
    gone = tuple(KvBelief(f"gone-{number}") for number in range(MOST_BELIEFS))
    routers.report(session, RouterReport(kv_beliefs=gone))
    routers.report(session, RouterReport(kv_beliefs=(KvBelief("w1", blocks=3),)))
    assert len(session.kv_beliefs) == 1
