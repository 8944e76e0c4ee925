from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from console.plain.waterfall import meter, waterfall
from console.text import width
from control_plane.contracts.fleet import Stage


def test_stages_follow_one_another_on_one_line_of_time() -> None:
    lines = waterfall([Stage("queue", 0.0, 0.5), Stage("prefill", 0.5, 0.5)], 1.0, width=40)
    bars = [line.split("│")[1] for line in lines]
    assert bars == ["██████████", "          ██████████"]
    assert lines[0].startswith("queue      500 ms")


def test_the_shortest_stage_still_shows_and_an_open_one_points_on() -> None:
    lines = waterfall([Stage("auth", 0.0, 1e-6), Stage("decode", 0.0, 9.0)], 9.0, open_ended=True)
    assert lines[0].endswith("│▏")
    assert lines[1].endswith("█▶")


def test_no_stages_no_lines() -> None:
    assert waterfall([], 1.0) == []


finite = st.floats(-10, 1e6)


@given(st.lists(st.builds(Stage, st.text(max_size=12), finite, finite), max_size=6), finite, st.integers(1, 120))
def test_no_line_is_wider_than_its_room(stages: list[Stage], total: float, room: int) -> None:
    assert all(width(line) <= room for line in waterfall(stages, total, width=room, open_ended=True))


def test_meter() -> None:
    assert [meter(f, 4) for f in (-1, 0, 0.01, 0.5, 1, 2)] == ["░░░░", "░░░░", "▓░░░", "▓▓░░", "▓▓▓▓", "▓▓▓▓"]
