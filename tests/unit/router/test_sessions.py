from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from control_plane.router.sessions import Sessions


def test_a_session_is_where_it_was_last_for_a_while() -> None:
    sessions = Sessions(kept_s=10.0)
    sessions.settle("chat", "a", 100.0)
    sessions.settle("chat", "b", 105.0)
    assert [sessions.home("chat", now) for now in (105.0, 115.0, 115.1)] == ["b", "b", ""]
    assert sessions.home("other", 105.0) == ""


def test_no_session_is_none() -> None:
    sessions = Sessions()
    sessions.settle("", "a", 1.0)
    assert (sessions.home("", 1.0), len(sessions)) == ("", 0)


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 4)), max_size=80))
def test_there_are_never_more_than_so_many_and_none_that_is_too_old(calls: list[tuple[int, float]]) -> None:
    sessions, now, last = Sessions(kept_s=10.0, most=5), 0.0, dict[str, float]()
    for number, pause in calls:
        now += pause
        sessions.settle(str(number), "a", now)
        last[str(number)] = now
        newest = sorted(last, key=lambda name: -last[name])[:5]
        assert len(sessions) <= 5
        for name in last:
            assert bool(sessions.home(name, now)) <= (name in newest or last[name] == last[newest[-1]])
        assert sessions.home(str(number), now) == "a"
    sessions.settle("late", "a", now + 100.0)
    assert len(sessions) == 1
