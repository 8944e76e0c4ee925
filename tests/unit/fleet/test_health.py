"""When a worker counts as alive."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from control_plane.fleet.health import BUSY_INTERVAL_S, FRESH_S, INTERVAL_S, MISSES, RECOVERIES, Health, Life, is_fresh

LOST_AFTER_S = INTERVAL_S * MISSES


def test_nothing_is_known_before_the_first_sign() -> None:
    assert Health(0.0).life is Life.UNKNOWN
    assert Health(0.0).check(1.0).life is Life.UNKNOWN
    assert Health(0.0).sign(1.0).life is Life.ALIVE


def test_a_worker_that_never_gave_a_sign_is_lost_in_the_end() -> None:
    assert Health(0.0).check(LOST_AFTER_S).life is Life.LOST


def test_one_or_two_missed_heartbeats_are_nothing() -> None:
    health = Health(0.0).sign(10.0)
    late = 10.0 + INTERVAL_S * (MISSES - 1) + 0.1
    assert health.misses(late) == MISSES - 1
    assert health.check(late).life is Life.ALIVE
    assert health.check(late).sign(late).misses(late + 0.1) == 0


def test_three_missed_heartbeats_in_a_row_make_it_lost() -> None:
    health = Health(0.0).sign(10.0)
    assert health.check(10.0 + LOST_AFTER_S).life is Life.LOST


def test_progress_counts_as_alive_while_answers_are_slow() -> None:
    health = Health(0.0).sign(0.0)
    for tick in range(120):  # answers come every 5 s, tokens every half second
        now = tick * 0.5
        health = health.check(now).sign(now)
        assert health.life is Life.ALIVE


def test_one_lucky_answer_does_not_bring_it_back() -> None:
    health = Health(0.0).sign(0.0).check(LOST_AFTER_S)
    for answer in range(5):  # each too late after the last
        now = LOST_AFTER_S + (answer + 1) * (INTERVAL_S + 1)
        health = health.check(now).sign(now)
        assert health.life is Life.LOST
    assert health.sign(now + 1).life is Life.ALIVE


def test_late_answers_that_tell_of_steps_are_those_of_a_busy_worker() -> None:
    """H01: answers come 5 s apart while the engine steps on. It is missed once, and not again."""
    health, lost = Health(0.0).sign(0.0), 0
    for tick in range(1, 240):
        now = tick * 0.5
        before = health.life
        health = health.check(now)
        lost += health.life is Life.LOST and before is not Life.LOST
        if tick % 10 == 0:
            health = health.sign(now, worked=True)
            assert health.life is Life.ALIVE
    assert lost == 1


def test_a_busy_worker_that_says_nothing_more_is_lost_all_the_same() -> None:
    health = Health(0.0).sign(0.0).sign(4.0, worked=True)
    assert health.busy
    assert health.check(4.0 + MISSES * BUSY_INTERVAL_S - 0.1).life is Life.ALIVE
    assert health.check(4.0 + MISSES * BUSY_INTERVAL_S).life is Life.LOST


def test_one_that_answers_in_time_again_is_busy_no_more() -> None:
    health = Health(0.0).sign(0.0).sign(4.0, worked=True)
    health = health.sign(5.0).sign(6.0)
    assert not health.busy
    assert health.check(6.0 + LOST_AFTER_S).life is Life.LOST


def test_late_answers_without_steps_are_those_of_a_sick_worker() -> None:
    """It works at nothing, and answers too late: one lucky answer does not bring it back."""
    health = Health(0.0).sign(0.0)
    for answer in range(1, 6):
        now = answer * 5.0
        health = health.check(now).sign(now)
        assert health.life is Life.LOST


def test_one_that_misses_every_second_heartbeat_is_never_lost() -> None:
    """H01: ok and fail in turn."""
    health, now = Health(0.0).sign(0.0), 0.0
    for index in range(40):
        now += 1.0 if index % 2 else 2.0 * INTERVAL_S
        health = health.check(now)
        assert health.life is Life.ALIVE
        health = health.sign(now)


def test_an_engine_that_has_requests_and_makes_no_step_is_lost_however_well_it_answers() -> None:
    health = Health(0.0).sign(0.0).sign(1.0, worked=True, owing=True)
    for now in range(2, 12):
        health = health.sign(float(now), owing=True).check(float(now), 10.0)
        assert health.life is Life.ALIVE
    health = health.sign(12.0, owing=True).check(12.0, 10.0)
    assert (health.life, health.stalled) == (Life.LOST, True)
    assert health.why_lost(12.0) == "its engine hangs: it has requests and has made no step for 10 s"
    for now in range(13, 20):
        health = health.sign(float(now), owing=True)
        assert (health.life, health.stalled) == (Life.LOST, True)
    assert health.sign(20.0, worked=True, owing=True).life is Life.ALIVE


def test_a_step_or_nothing_to_do_is_no_stall() -> None:
    stuck = Health(0.0).sign(0.0, owing=True)
    for health in (stuck.sign(9.0, worked=True, owing=True), stuck.sign(9.0)):
        assert not health.sign(10.0, owing=True).check(18.0, 10.0).stalled
    assert Health(0.0).sign(0.0, owing=True).sign(1e5, owing=True).check(1e5).life is Life.ALIVE


def test_what_is_lost_for_silence_is_not_stalled() -> None:
    health = Health(0.0).sign(0.0, owing=True).check(10.0, 10.0)
    assert (health.life, health.stalled) == (Life.LOST, False)
    assert health.why_lost(10.0) == "no sign of life for 10.0 s"
    back = health.sign(10.5, owing=True).sign(11.0, owing=True)
    assert (back.life, back.check(11.0, 10.0).stalled) == (Life.ALIVE, True)


def test_load_gets_stale() -> None:
    assert is_fresh(5.0, 5.0 + FRESH_S)
    assert not is_fresh(5.0, 5.0 + FRESH_S + 0.01)


@given(st.lists(st.floats(0.01, 20.0), min_size=1, max_size=60))
def test_every_change_of_mind_takes_evidence(gaps: list[float]) -> None:
    """Between two losses there are RECOVERIES signs in time, and a loss takes MISSES intervals of silence."""
    health, now, signs_in_time = Health(0.0).sign(0.0), 0.0, 0
    for gap in gaps:
        now += gap
        before = health
        health = health.check(now)
        if before.life is not Life.LOST and health.life is Life.LOST:
            assert gap >= LOST_AFTER_S
            signs_in_time = 0
        was_lost = health.life is Life.LOST
        signs_in_time = signs_in_time + 1 if gap <= INTERVAL_S else 1
        health = health.sign(now)
        if was_lost and health.life is Life.ALIVE:
            assert signs_in_time >= RECOVERIES
