from __future__ import annotations

import math
from dataclasses import replace

import pytest

from console.tui.live.history import History
from control_plane.contracts.fleet import Snapshot, WorkerPhase, WorkerView
from tests.snapshots.memory import NOW, snapshot, worker


def at(second: float, *workers: WorkerView) -> Snapshot:
    return snapshot(NOW + second, workers=workers, requests=0)


def heard(*points: tuple[float, float]) -> History:
    history = History()
    for second, use in points:
        history.add(at(second, worker("w1", use, NOW + second)))
    return history


def uses(history: History, end: float, span: float, bins: int) -> list[float | None]:
    return [sample.kv_use for sample in history.window("w1", NOW + end, span, bins)]


def test_a_stretch_is_the_mean_of_its_samples() -> None:
    history = heard((0.0, 0.1), (0.5, 0.3), (1.0, 0.5), (2.0, 0.7))
    assert uses(history, 2.0, 3.0, 3) == pytest.approx([0.2, 0.5, 0.7])


def test_what_was_not_heard_is_a_gap() -> None:
    history = heard((0.0, 0.1), (1.0, 0.2), (10.0, 0.9))
    assert uses(history, 10.0, 11.0, 11) == [0.1, 0.2, 0.2, *[None] * 7, 0.9]


def test_a_lost_worker_leaves_a_gap() -> None:
    history = heard((0.0, 0.1))
    lost = worker("w1", 0.9, NOW + 1, phase=WorkerPhase.LOST)
    history.add(at(1.0, lost))
    assert uses(history, 1.0, 2.0, 2) == [0.1, None]


def test_a_moment_in_the_past_does_not_see_what_came_later() -> None:
    history = heard((0.0, 0.1), (1.0, 0.2), (2.0, 0.9))
    assert uses(history, 1.0, 2.0, 2) == [0.1, 0.2]


def test_samples_come_no_closer_than_can_be_seen() -> None:
    history = heard((0.0, 0.1), (0.1, 0.9), (0.39, 0.9), (0.5, 0.3))
    assert uses(history, 0.5, 1.0, 1) == pytest.approx([0.2])


def test_a_clock_that_was_set_back_starts_anew() -> None:
    history = heard((100.0, 0.9), (0.0, 0.1))
    assert uses(history, 0.0, 1.0, 1) == [0.1]


def test_workers_that_are_long_gone_are_forgotten() -> None:
    history = heard((0.0, 0.5))
    history.add(at(601.0, worker("w2", 0.1, NOW + 601)))
    assert uses(history, 0.0, 1.0, 1) == []


def test_no_number_is_no_sample() -> None:
    history = History()
    view = worker("w1", 0.5)
    assert view.load is not None
    history.add(at(0.0, replace(view, load=replace(view.load, kv_usage=math.nan, tokens_per_s=math.inf))))
    (sample,) = history.window("w1", NOW, 1.0, 1)
    assert (sample.kv_use, sample.tokens_per_s) == (None, None)
