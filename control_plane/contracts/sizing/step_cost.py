"""What a step costs, from steps that were measured: four numbers, fitted by least squares.

A step costs ``step_s``, and for each row that computes one token ``decode_s``, for each token of the other rows
``prefill_s``, and for each token in the cache of any row ``context_s``. Errors count relative to the step: a long one
must not drown a hundred short ones. No cost can be negative (C. Lawson, R. Hanson: Solving Least Squares Problems,
1974, chapter 23; four unknowns are few enough to try every set of those that are above zero).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.step import EngineStep


class Sample(NamedTuple):
    """One step: tokens of rows with several, rows with one, tokens in the cache of all, and its time in seconds."""

    prefill: int
    decode: int
    context: int
    seconds: float

    @property
    def regime(self) -> str:
        if self.prefill:
            return "mixed" if self.decode else "prefill"
        return "decode alone" if self.decode == 1 else "decode together"


@dataclass(frozen=True, slots=True)
class StepCost:
    """Seconds."""

    step_s: float
    prefill_s: float
    decode_s: float
    context_s: float

    def seconds(self, prefill: int, decode: int, context: int) -> float:
        return self.step_s + prefill * self.prefill_s + decode * self.decode_s + context * self.context_s


@dataclass(frozen=True, slots=True)
class Residual:
    """``median`` and ``p90`` of |predicted ÷ measured − 1| over ``steps`` steps."""

    regime: str
    steps: int
    median: float
    p90: float


def samples_of(steps: Iterable[EngineStep]) -> list[Sample]:
    """Of the steps that ran a model; the time is from the schedule's begin to the output."""
    samples = []
    for step in steps:
        seconds = step.schedule_s + step.execute_s
        if not step.rows or seconds <= 0:
            continue
        decode = sum(row.tokens == 1 for row in step.rows)
        prefill = sum(row.tokens for row in step.rows if row.tokens > 1)
        samples.append(Sample(prefill, decode, sum(row.computed for row in step.rows), seconds))
    return samples


def fit(samples: Sequence[Sample]) -> StepCost:
    """Raises InvalidRequest where the samples cannot tell the costs apart."""
    rows = np.array([(1.0, *sample[:3]) for sample in samples]).reshape(-1, 4)
    seconds = np.array([sample.seconds for sample in samples])
    if len(samples) < 8 or np.linalg.matrix_rank(rows) < 4:
        raise InvalidRequest(
            f"{len(samples)} steps do not tell the costs apart: batches, prompts and contexts must differ",
            param="steps",
        )
    weighted = rows / seconds[:, None]
    scale = np.linalg.norm(weighted, axis=0)
    weighted = weighted / scale
    best, least = np.zeros(4), float("inf")
    for count in range(1, 5):
        for chosen in combinations(range(4), count):
            found = np.linalg.lstsq(weighted[:, chosen], np.ones(len(samples)), rcond=None)[0]
            if (found < 0).any():
                continue
            costs = np.zeros(4)
            costs[list(chosen)] = found
            error = float(np.sum((weighted @ costs - 1.0) ** 2))
            if error < least:
                best, least = costs, error
    return StepCost(*(float(cost) for cost in best / scale))


def residuals(cost: StepCost, samples: Sequence[Sample]) -> tuple[Residual, ...]:
    """By regime, in the order in which they came up."""
    errors: dict[str, list[float]] = {}
    for sample in samples:
        wrong = abs(cost.seconds(*sample[:3]) / sample.seconds - 1.0)
        errors.setdefault(sample.regime, []).append(wrong)
    return tuple(
        Residual(regime, len(found), float(np.median(found)), float(np.quantile(found, 0.9)))
        for regime, found in errors.items()
    )
