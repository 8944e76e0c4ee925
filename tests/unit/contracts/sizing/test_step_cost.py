from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.sizing.step_cost import Sample, StepCost, fit, residuals, samples_of
from control_plane.contracts.step import EngineStep, StepKind, StepRow

COSTS = st.floats(1e-7, 1e-2)


def sweep(cost: StepCost, noise: float = 0.0, seed: int = 0) -> list[Sample]:
    dice, samples = random.Random(seed), []
    for _ in range(120):
        prefill, decode = dice.choice([0, 0, 64, 256]), dice.randint(0, 16)
        if not prefill and not decode:
            decode = 1
        context = decode * dice.randint(10, 1500) + (dice.choice([0, 512]) if prefill else 0)
        seconds = cost.seconds(prefill, decode, context) * (1 + dice.gauss(0, noise))
        samples.append(Sample(prefill, decode, context, seconds))
    return samples


@settings(max_examples=40, deadline=None)
@given(COSTS, COSTS, COSTS, COSTS)
def test_what_made_the_steps_is_found_again(step: float, prefill: float, decode: float, context: float) -> None:
    true = StepCost(step, prefill, ((1, decode),), context)
    samples = sweep(true)
    found = fit(samples)
    for residual in residuals(found, samples):
        assert residual.p90 < 1e-6, residual


def test_noise_moves_it_little_and_residuals_tell_how_much() -> None:
    true = StepCost(4e-3, 2e-4, ((1, 1e-3),), 5e-7)
    samples = sweep(true, noise=0.05)
    found = fit(samples)
    assert found.step_s == pytest.approx(true.step_s, rel=0.2)
    assert found.prefill_s == pytest.approx(true.prefill_s, rel=0.05)
    told = residuals(found, samples)
    assert {residual.regime for residual in told} == {"prefill", "mixed", "decode alone", "decode together"}
    assert sum(residual.steps for residual in told) == 120
    assert all(0.005 < residual.median < 0.08 for residual in told)


def test_prompt_tokens_that_are_free_are_found() -> None:
    true = StepCost(6e-3, 2e-4, ((1, 1e-5),), 1e-7, prefill_free=128)
    samples = [*sweep(true), *(Sample(n, 0, 0, true.seconds(n, 0, 0)) for n in range(10, 600, 25))]
    found = fit(samples)
    assert found.prefill_free == 128
    assert found.prefill_s == pytest.approx(true.prefill_s, rel=0.01)
    assert max(residual.p90 for residual in residuals(found, samples)) < 1e-6
    assert fit(sweep(StepCost(4e-3, 2e-4, ((1, 1e-3),), 5e-7), noise=0.02)).prefill_free == 0


def test_no_cost_is_negative() -> None:
    samples = [
        Sample(s.prefill, s.decode, s.context, s.seconds) for s in sweep(StepCost(1e-2, 1e-4, ((1, 1e-3),), 0.0), 0.2)
    ]
    found = fit(samples)
    assert min(found.step_s, found.prefill_s, found.context_s, *(cost for _, cost in found.decode)) >= 0


@pytest.mark.parametrize("samples", [[], [Sample(0, 1, 10, 0.01)] * 50])
def test_steps_that_are_alike_tell_nothing(samples: list[Sample]) -> None:
    with pytest.raises(InvalidRequest, match="do not tell the costs apart"):
        fit(samples)


def test_samples_are_read_from_steps() -> None:
    rows = (
        StepRow("a", StepKind.DECODE, 1, 100, 90, 11),
        StepRow("b", StepKind.PREFILL, 64, 32, 300),
        StepRow("c", StepKind.DECODE, 1, 50, 40, 11),
    )
    steps = [EngineStep(1, 0.0, 0.001, 0.02, 66, rows), EngineStep(2, 0.0)]
    assert samples_of(steps) == [Sample(64, 2, 182, 0.021)]
