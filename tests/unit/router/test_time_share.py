"""A worker's time, shared out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.contracts.fleet import ModelView
from control_plane.contracts.worker import Load, WorkerState
from control_plane.router.time_share import TimeShare
from tests.unit.router.stage import MODEL, Stage


def test_time_is_divided_among_those_that_are_there() -> None:
    share = TimeShare()
    share.change(10.0, 1)
    assert share.each(12.0) == 2.0
    share.change(12.0, 4)
    assert share.each(16.0) == 3.0
    share.change(16.0, 0)
    assert share.each(100.0) == 3.0, "what nobody uses falls to nobody"
    share.change(100.0, 2)
    assert share.each(101.0) == 3.5


@given(st.lists(st.tuples(st.floats(0, 10), st.booleans()), max_size=40))
def test_shares_add_up_to_the_time_that_the_worker_was_in_use(changes: list[tuple[float, bool]]) -> None:
    share, now, busy, given_out = TimeShare(), 0.0, 0.0, 0.0
    marks: list[float] = []
    for gap, comes in [*changes, *[(1.0, False)] * len(changes)]:
        now += gap
        busy += gap if marks else 0.0
        if comes:
            marks.append(0.0)
            share.change(now, len(marks))
            marks[-1] = share.each(now)
        elif marks:
            given_out += share.each(now) - marks.pop()
            share.change(now, len(marks))
    assert given_out == pytest.approx(busy)


def stage_with_a_price(price: float) -> Stage:
    stage = Stage()
    stage.start("a")
    stage.dispatcher.catalogue.update((ModelView(MODEL, "pool", price_per_hour=price),))
    return stage


def ended(stage: Stage) -> dict[str, tuple[float, float]]:
    """Each ended request's share of its workers' time, and its cost."""
    return {view.id: (view.worker_s, view.cost) for view in stage.ledger.take(stage.now).ended}


def test_a_request_costs_its_share_of_its_workers_time() -> None:
    stage = stage_with_a_price(3600.0)
    stage.submit("r1")
    stage.advance(2.0)
    stage.submit("r2", n=3)
    stage.advance(4.0)
    stage.link("a").finish("r1")
    stage.advance(1.0)
    stage.link("a").finish("r2")
    assert ended(stage) == {"r1": (3.0, 3.0), "r2": (4.0, 4.0)}


def test_one_that_still_runs_has_its_share_so_far() -> None:
    stage = stage_with_a_price(1800.0)
    stage.submit("r1")
    stage.advance(2.0)
    [view] = stage.ledger.take(stage.now).active
    assert (view.worker_s, view.cost) == (2.0, 1.0)


def test_what_others_have_there_has_its_share_too() -> None:
    stage = stage_with_a_price(0.0)
    stage.workers["a"].load = Load("a-i1", stage.now, WorkerState.READY, running=3)
    stage.publish()
    stage.submit("r1")
    stage.advance(4.0)
    stage.link("a").finish("r1")
    assert ended(stage) == {"r1": (1.0, 0.0)}


def test_every_worker_that_had_it_counts() -> None:
    stage = stage_with_a_price(3600.0)
    stage.start("a", "b")
    stage.dispatcher.catalogue.update((ModelView(MODEL, "pool", price_per_hour=3600.0),))
    stage.submit("r1")
    first = stage.where("r1")
    stage.advance(1.5)
    stage.dispatcher.link_down(stage.link(first).target, "gone")
    second = stage.where("r1")
    assert {first, second} == {"a", "b"}
    stage.advance(0.5)
    stage.link(second).finish("r1")
    assert ended(stage) == {"r1": (2.0, 2.0)}
