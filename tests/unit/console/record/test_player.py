"""Where a replay stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.record.player import SPEEDS, Player


def test_plays_at_its_speed_and_stops_at_the_end() -> None:
    player = Player(100.0, 200.0, speed=4.0)
    assert player.standing(10.0).at == 100.0
    assert player.standing(15.0).at == 120.0
    player.speed(0.5, 15.0)
    assert player.standing(25.0).at == 125.0
    player.speed(16.0, 25.0)
    ended = player.standing(35.0)
    assert (ended.at, ended.playing, ended.ended) == (200.0, False, True)
    assert (ended.elapsed, ended.total) == (100.0, 100.0)


def test_a_pause_takes_no_recorded_time() -> None:
    player = Player(0.0, 100.0)
    player.standing(0.0)
    player.pause(3.0)
    assert player.standing(50.0).at == 3.0
    player.play(60.0)
    assert player.standing(61.0).at == 4.0


def test_play_at_the_end_begins_anew() -> None:
    player = Player(0.0, 10.0)
    player.seek(99.0, 0.0)
    assert player.standing(1.0).ended
    player.play(2.0)
    assert (player.standing(2.0).at, player.standing(5.0).at) == (0.0, 3.0)


@pytest.mark.parametrize(("wanted", "at"), [(-5.0, 0.0), (7.0, 7.0), (99.0, 10.0)])
def test_a_seek_stays_within(wanted: float, at: float) -> None:
    player = Player(0.0, 10.0, playing=False)
    player.seek(wanted, 0.0)
    assert player.standing(1.0).at == at


def test_speeds_go_up_and_down_and_end() -> None:
    player = Player(0.0, 10.0, playing=False)
    seen = []
    for by in (1, 1, 1, 1, 1, -1, -10):
        player.faster(by, 0.0)
        seen.append(player.standing(0.0).speed)
    assert seen == [2.0, 4.0, 8.0, 16.0, 16.0, 8.0, 0.25]
    player.speed(99.0, 0.0)
    assert player.standing(0.0).speed == SPEEDS[-1]


@given(
    st.lists(
        st.tuples(st.sampled_from(["play", "pause", "seek", "faster", "look"]), st.floats(-20, 120), st.floats(0, 9))
    )
)
def test_it_never_leaves_the_recording_nor_goes_back_by_itself(
    orders: list[tuple[str, float, float]],
) -> None:
    player, now, before = Player(0.0, 100.0), 0.0, 0.0
    for order, unix, passed in orders:
        now += passed
        at = player.standing(now).at
        assert before <= at <= 100.0
        match order:
            case "seek":
                player.seek(unix, now)
            case "faster":
                player.faster(1 if unix > 0 else -1, now)
            case "play":
                player.play(now)
            case "pause":
                player.pause(now)
        before = player.standing(now).at
