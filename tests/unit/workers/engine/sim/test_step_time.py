from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.contracts.sizing.gpus import Gpu
from control_plane.contracts.sizing.model_shape import ModelShape
from control_plane.contracts.sizing.roofline import TYPICAL, Roofline
from control_plane.contracts.sizing.roofline import Row as RooflineRow
from control_plane.contracts.sizing.step_cost import Residual, StepCost
from control_plane.contracts.step import StepKind
from tests.unit.contracts.sizing.shapes import gpus, published, shapes
from workers.engine.sim.scheduled import Row
from workers.engine.sim.step_time import MeasuredTimer, RooflineTimer

COST = StepCost(4e-3, 2e-4, ((1, 1e-3), (4, 7e-3), (8, 8e-3)), 0.0)
RATIOS = (0.8, 0.9, 1.0, 1.4)


def row(tokens: int, context: int = 0) -> Row:
    kind = StepKind.DECODE if tokens == 1 else StepKind.PREFILL
    return ("a", kind, tokens, context, 10, 0, 0, 0, False, False, (), 1)


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


@given(
    shapes | st.sampled_from([published("Llama-3.1-8B"), published("Llama-3.1-70B")]),
    gpus,
    st.sampled_from((1, 2)),
    st.lists(st.tuples(st.sampled_from((1, 1, 7, 500)), st.integers(0, 20_000)), min_size=1, max_size=9),
)
@settings(deadline=None)
def test_a_roofline_timer_says_what_the_roofline_says(
    shape: ModelShape, gpu: Gpu, tp: int, rows: list[tuple[int, int]]
) -> None:
    line = Roofline(shape, gpu, tp)
    timer = RooflineTimer(line, TYPICAL)
    expected = line.step_time([RooflineRow(*each) for each in rows], TYPICAL).seconds
    assert timer.seconds([row(*each) for each in rows], 1) == pytest.approx(expected, rel=1e-12)
    decoding, context = len(rows), sum(known for _, known in rows)
    decodes = timer.decodes(decoding, context)
    if decodes is not None:
        assert decodes == pytest.approx(line.decodes(decoding, context, TYPICAL).seconds, rel=1e-12)
