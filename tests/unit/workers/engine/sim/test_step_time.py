from __future__ import annotations

import pytest

from control_plane.contracts.sizing.step_cost import Residual, StepCost
from control_plane.contracts.step import StepKind
from workers.engine.sim.scheduled import Row
from workers.engine.sim.step_time import MeasuredTimer

COST = StepCost(4e-3, 2e-4, ((1, 1e-3), (4, 7e-3), (8, 8e-3)), 0.0)
RATIOS = (0.8, 0.9, 1.0, 1.4)


def row(tokens: int) -> Row:
    kind = StepKind.DECODE if tokens == 1 else StepKind.PREFILL
    return ("a", kind, tokens, 0, 10, 0, 0, 0, False, False, (), 1)


@pytest.mark.parametrize(("rows", "seconds"), [(0, 0.0), (1, 1e-3), (2, 3e-3), (4, 7e-3), (6, 7.5e-3), (16, 16e-3)])
def test_rows_that_decode_lie_on_lines_between_those_that_were_measured(rows: int, seconds: float) -> None:
    assert COST.decode_s(rows) == pytest.approx(seconds)


def test_steps_of_a_kind_vary_as_those_that_were_measured() -> None:
    timer = MeasuredTimer(COST, [Residual("decode alone", 40, 0.1, 0.3, RATIOS)])
    alone = [timer.seconds([row(1)], step) / 5e-3 for step in range(1, 101)]
    assert sorted({round(ratio, 9) for ratio in alone}) == list(RATIOS)
    for ratio in RATIOS:
        assert 23 <= sum(each == pytest.approx(ratio) for each in alone) <= 27
    assert timer.decodes(1, 0) == pytest.approx(5e-3 * sum(RATIOS) / 4)
    assert alone == [timer.seconds([row(1)], step) / 5e-3 for step in range(1, 101)], "chance has no part in it"
    [same] = {timer.seconds([row(1)] * 2, step) for step in range(50)}
    assert same == pytest.approx(7e-3), "of another kind"
