from __future__ import annotations

from control_plane.router.virtual_time import REMEMBERED, VirtualTime


def test_nobody_saves_up_while_away() -> None:
    times = VirtualTime()
    times.enter("a")
    for _ in range(10):
        times.serve("a", 5.0, waited=True)
    times.enter("late")
    assert times["late"] == 45.0, "where the clock is, not at the beginning"
    assert times["a"] == 50.0


def test_who_was_served_out_of_turn_is_behind_and_the_clock_does_not_move_for_it() -> None:
    times = VirtualTime()
    times.enter("a")
    times.serve("past", 100.0, waited=False)
    times.enter("b")
    assert (times["a"], times["b"], times["past"]) == (0.0, 0.0, 100.0)
    times.correct("past", -60.0)
    assert times["past"] == 40.0


def test_what_is_remembered_is_bounded_and_those_that_wait_are_never_forgotten() -> None:
    times = VirtualTime()
    times.enter("waits")
    for number in range(5 * REMEMBERED):
        times.serve(f"n{number}", float(number + 1), waited=False)
        times.prune({"waits"})
    assert len(times) <= 2 * REMEMBERED
    assert times["waits"] == 0.0
    assert times[f"n{5 * REMEMBERED - 1}"] == 5.0 * REMEMBERED
