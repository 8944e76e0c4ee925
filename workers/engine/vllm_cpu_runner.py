"""A repair of vLLM's model runner on the CPU, in the processes that run the model.

A request whose prompt takes several steps is sampled in each of them, and vLLM throws all but the last token away. It
then turns the request's random generator back, by a way that only GPU generators have: with a seed in the request, the
core dies, and every request with it. Here the generators of such requests are out of sight while tokens are thrown
away, so they need no turning back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from vllm.v1.worker.cpu_model_runner import CPUModelRunner

_sample_tokens: Callable[..., Any] = CPUModelRunner.sample_tokens


def repair() -> None:
    """Call it before the model runner is made, in its process or in the one that it is forked from. Idempotent."""
    CPUModelRunner.sample_tokens = _sample_with_seeds


def _sample_with_seeds(runner: Any, *args: Any, **kwargs: Any) -> Any:
    generators: dict[int, Any] = runner.input_batch.generators
    hidden = {}
    if generators:
        thrown_away = np.nonzero(runner.discard_request_mask.np[: runner.input_batch.num_reqs])[0].tolist()
        hidden = {index: generators.pop(index) for index in thrown_away if index in generators}
    try:
        return _sample_tokens(runner, *args, **kwargs)
    finally:
        generators.update(hidden)
