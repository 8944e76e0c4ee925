from __future__ import annotations

import pytest

from lessons import measures as m
from lessons.observation import Value
from tests.unit.lessons.batches import STEPS, traced

CASES: list[tuple[m.Measure, Value | None]] = [
    (m.Steps(), 7.0),
    (m.Steps("long"), 6.0),
    (m.Steps("long", "prefill"), 2.0),
    (m.Steps("short", "decode"), 1.0),
    (m.Steps("late"), None),
    (m.Chunk(), 24.0),
    (m.Chunk("short"), 8.0),
    (m.Chunk("late"), None),
    (m.Rate("long", "prefill"), pytest.approx(40 / 0.4)),
    (m.Rate("long"), pytest.approx(9 / 0.3)),
    (m.Rate("short"), pytest.approx(1 / 0.05)),
    (m.Rate("short", "prefill"), None),
    (m.LeftOut("long"), 1.0),
    (m.LeftOut("short"), 0.0),
    (m.LeftOut(), 1.0),
    (m.LeftOut("late"), None),
    (m.StepsAfter("long", "short"), 2.0),
    (m.StepsAfter("short", "long"), 0.0),
    (m.StepsAfter("long", "late"), None),
    (m.FixedSteps(), 14.0),
    (m.FixedSteps("short"), 2.0),
    (m.FixedSteps("nobody"), None),
]


@pytest.mark.parametrize(("measure", "value"), CASES)
def test_what_each_measure_says(measure: m.Measure, value: Value | None) -> None:
    assert measure.read(traced()) == value


@pytest.mark.parametrize("measure", [m.Steps(), m.Chunk(), m.Rate(), m.LeftOut(), m.StepsAfter("long", "short")])
def test_where_steps_were_lost_nothing_is_known(measure: m.Measure) -> None:
    assert measure.read(traced(lost_steps=1)) is None


def test_a_step_is_one_steps_whatever_worker_made_it() -> None:
    assert m.Steps().read(traced(steps={"w-1": STEPS[:3], "w-2": STEPS[3:]})) == 7


def test_a_fixed_batch_is_as_large_as_the_engine_takes() -> None:
    assert m.FixedSteps().read(traced(workers=())) is None
