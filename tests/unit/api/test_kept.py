"""What many watch is built once for all of them."""

from __future__ import annotations

from itertools import count

from control_plane.api.kept import KEPT_S, Kept
from control_plane.fleet.changes import Changes


def test_it_is_built_once_until_something_changes_or_its_ages_are_old() -> None:
    changes, now, built = Changes(), [5.0], count(1)
    kept = Kept(changes, lambda: next(built), clock=lambda: now[0])
    assert [kept.get(), kept.get()] == [1, 1]
    changes.bump()
    assert [kept.get(), kept.get()] == [2, 2]
    now[0] += KEPT_S
    assert kept.get() == 2
    now[0] += 0.001
    assert [kept.get(), kept.get()] == [3, 3]


def test_a_change_while_it_is_built_is_in_the_next() -> None:
    changes, built = Changes(), count(1)

    def build() -> int:
        number = next(built)
        if number == 1:
            changes.bump()
        return number

    kept = Kept(changes, build, clock=lambda: 0.0)
    assert [kept.get(), kept.get(), kept.get()] == [1, 2, 2]
