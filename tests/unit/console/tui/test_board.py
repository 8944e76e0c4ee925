from __future__ import annotations

from console.tui.live.board import MOST_EVENTS, Board
from control_plane.contracts.fleet import Event
from tests.snapshots.memory import NOW, snapshot


def test_nothing_is_known_at_first() -> None:
    view = Board("here").view(5.0)
    assert view.snapshot is None
    assert view.silent_s is None
    assert view.stale
    assert view.workers == view.requests == view.pools == ()


def test_the_age_of_the_data_is_counted_from_when_it_was_heard() -> None:
    board = Board("here")
    board.heard(snapshot(), 100.0)
    assert board.view(107.5).silent_s == 7.5
    assert not board.view(107.5).stale
    board.lost("refused")
    view = board.view(110.0)
    assert view.stale
    assert view.silent_s == 10.0
    assert view.link.error == "refused"
    assert view.snapshot is not None


def test_how_often_it_is_heard() -> None:
    board = Board("here")
    for step in range(20):
        board.heard(snapshot(NOW + step / 2), 100.0 + step / 2)
    assert board.view(110.0).link.per_s == 2.0
    board.lost("refused")
    assert board.view(110.0).link.per_s == 0.0


def test_events_are_collected_once_and_in_order() -> None:
    board = Board("here")
    early, late = Event(1, NOW, "a", "x", "first"), Event(2, NOW + 1, "b", "x", "second")
    board.heard(snapshot(events=(late,)), 1.0)
    board.learn((early, late))
    board.heard(snapshot(events=(early, late)), 2.0)
    assert board.view(2.0).events == (early, late)


def test_the_oldest_events_are_forgotten() -> None:
    board = Board("here")
    board.learn(tuple(Event(seq, NOW + seq, "k", "s", "m") for seq in range(MOST_EVENTS + 10)))
    events = board.view(0.0).events
    assert len(events) == MOST_EVENTS
    assert events[0].seq == 10


def test_a_view_does_not_change_when_more_is_heard() -> None:
    board = Board("here")
    board.heard(snapshot(NOW, workers=2), 1.0)
    view = board.view(1.0)
    board.heard(snapshot(NOW + 1, workers=3), 2.0)
    assert len(view.workers) == 2
    assert view.now_unix == NOW
