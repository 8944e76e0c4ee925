from __future__ import annotations

from control_plane.contracts.fleet import RequestPhase
from control_plane.router.ledger import REMEMBERED_LIMIT, UNREPORTED_LIMIT
from tests.unit.router.stage import Stage


def test_news_that_did_not_get_through_come_again_in_order() -> None:
    stage = Stage()
    stage.start("a")
    for name in ("r1", "r2"):
        stage.submit(name)
        stage.now += 0.1
        stage.link("a").token(name)
        stage.now += 0.1
        stage.link("a").finish(name)
    lost = stage.ledger.take(stage.now)
    stage.submit("r3")
    stage.now += 0.1
    stage.link("a").finish("r3")
    stage.ledger.put_back(lost)
    account = stage.ledger.take(stage.now)
    assert [view.id for view in account.ended] == ["r1", "r2", "r3"]
    assert sum(account.meters["a"].ttft.values()) == 3
    assert sum(account.meters["a"].itl.values()) == 2


def test_without_a_listener_the_oldest_are_forgotten() -> None:
    stage = Stage()
    stage.start("a")
    for index in range(UNREPORTED_LIMIT + 5):
        stage.submit(f"r{index}")
        stage.link("a").finish(f"r{index}")
    account = stage.ledger.take(stage.now)
    assert len(account.ended) == UNREPORTED_LIMIT
    assert account.ended[0].id == "r5"
    stage.submit("new")
    stage.link("a").finish("new")
    stage.ledger.put_back(account)
    again = stage.ledger.take(stage.now)
    assert len(again.ended) == UNREPORTED_LIMIT
    assert again.ended[-1].id == "new"


def test_ended_ids_are_remembered_to_a_bound() -> None:
    stage = Stage()
    stage.start("a")
    for index in range(REMEMBERED_LIMIT + 1):
        stage.submit(f"r{index}")
        stage.link("a").finish(f"r{index}")
    assert not stage.ledger.has_ended("r0")
    assert stage.ledger.has_ended(f"r{REMEMBERED_LIMIT}")


def test_every_active_request_is_in_every_account() -> None:
    stage = Stage()
    stage.start("a")
    for name in ("r1", "r2", "r3"):
        stage.submit(name)
    stage.link("a").finish("r2")
    for _ in range(2):
        account = stage.ledger.take(stage.now)
        assert [view.id for view in account.active] == ["r1", "r3"]
        assert all(view.phase is RequestPhase.DISPATCHED for view in account.active)


def test_meters_of_workers_that_are_gone_are_dropped_once_reported() -> None:
    stage = Stage()
    stage.start("a")
    stage.submit("r")
    stage.link("a").finish("r")
    stage.start("b")
    assert "a" in stage.ledger.take(stage.now).meters
    stage.publish()
    stage.submit("s")
    stage.link("b").finish("s")
    assert set(stage.ledger.take(stage.now).meters) == {"b"}
    assert set(stage.ledger._meters) == {"b"}
