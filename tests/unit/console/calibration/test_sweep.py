from __future__ import annotations

import pytest

from console.calibration.sweep import sweep, warm_up
from control_plane.contracts.worker import ModelInfo


@pytest.mark.parametrize(("context", "seats"), [(128, 1), (2048, 16), (131_072, 1024)])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("per_word", [1.0, 1.4, 5.0])
def test_a_sweep_fits_in_the_model_and_varies(context: int, seats: int, workers: int, per_word: float) -> None:
    model = ModelInfo("m", max_context=context, max_num_seqs=seats)
    plans = sweep(model, workers, 1, per_word)
    assert all(plan.prompt.high * per_word + plan.output.high < context for plan in plans)
    assert plans[0].concurrency == workers
    assert len({plan.concurrency for plan in plans}) >= 2
    assert len({plan.prompt.high for plan in plans}) >= 2
    seeds = {plan.seed for plan in (warm_up(model, workers, 1), *plans)}
    assert len(seeds) == len(plans) + 1, "a prompt that is cached measures no prefill"
    assert sum(plan.requests for plan in plans) <= 250 * workers
