from __future__ import annotations

import pytest

from console.tui.notice import Notices, drain_words
from control_plane.contracts.fleet import DrainProgress


def test_notices_go_away_by_themselves_and_errors_stay_longer() -> None:
    notices = Notices()
    notices.add("fine", "info", 0.0)
    notices.add("bad", "error", 0.0)
    assert [notice.text for notice in notices.current(7.9)] == ["fine", "bad"]
    assert [notice.text for notice in notices.current(8.0)] == ["bad"]
    assert not notices.current(30.0)


def test_progress_stays_until_the_next_word_on_it() -> None:
    notices = Notices()
    notices.add("3 left", "progress", 0.0, "drain w1")
    notices.add("other", "info", 1.0)
    assert [notice.text for notice in notices.current(1e9)] == ["3 left"]
    notices.add("done", "info", 1e9, "drain w1")
    assert [notice.text for notice in notices.current(1e9)] == ["done"]
    assert not notices.current(1e9 + 8)


def test_a_notice_can_be_taken_back() -> None:
    notices = Notices()
    notices.add("no connection", "lost", 0.0, "link")
    notices.drop("link")
    assert not notices.current(0.0)


@pytest.mark.parametrize(
    ("progress", "words", "severity"),
    [
        (DrainProgress("w1", 2, ("a", "b")), "drain w1: 2 in flight: a, b", "progress"),
        (DrainProgress("w1", 5, ("a", "b", "c", "d")), "drain w1: 5 in flight: a, b, c, …", "progress"),
        (DrainProgress("w1", 0, done=True), "drain w1: nothing runs on it any more; it stays cordoned", "info"),
        (
            DrainProgress("w1", 1, ("a",), timed_out=True),
            "drain w1 timed out, 1 in flight: a; it stays cordoned",
            "error",
        ),
    ],
)
def test_drain_words(progress: DrainProgress, words: str, severity: str) -> None:
    assert drain_words(progress) == (words, severity)
