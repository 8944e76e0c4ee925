"""What a step costs, from steps that were measured: a few numbers, fitted by least squares.

A step costs ``step_s``, and for each row that computes one token ``decode_s``, for each token of the other rows beyond
the first ``prefill_free`` of them ``prefill_s``, and for each token in the cache of any row ``context_s``. On a GPU the
first tokens of prompts are free: the step reads all weights anyway, and multiplies meanwhile.

Errors count relative to the step: a long one must not drown a hundred short ones. No cost can be negative (C. Lawson,
R. Hanson: Solving Least Squares Problems, 1974, chapter 23; four unknowns are few enough to try every set of those that
are above zero).
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
    """Seconds, and tokens a step for ``prefill_free``."""

    step_s: float
    prefill_s: float
    decode_s: float
    context_s: float
    prefill_free: int = 0

    def seconds(self, prefill: int, decode: int, context: int) -> float:
        paid = max(0, prefill - self.prefill_free)
        return self.step_s + paid * self.prefill_s + decode * self.decode_s + context * self.context_s


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
    seconds = np.array([sample.seconds for sample in samples])
    if len(samples) < 8 or np.linalg.matrix_rank(_features(samples, 0)) < 4:
        raise InvalidRequest(
            f"{len(samples)} steps do not tell the costs apart: batches, prompts and contexts must differ",
            param="steps",
        )
    longest = max(sample.prefill for sample in samples)
    best, least = StepCost(0, 0, 0, 0), float("inf")
    for free in (each for each in _FREE if each < longest):
        costs, error = _fit(_features(samples, free) / seconds[:, None])
        if error < least * _BETTER:
            step, prefill, decode, context = (float(cost) for cost in costs)
            best, least = StepCost(step, prefill, decode, context, free), error
    return best


_FREE = (0, *(round(2 ** (half / 2)) for half in range(8, 21)))
"""Tried for ``prefill_free``: 16 to 1,024 tokens, each √2 times the one before."""

_BETTER = 0.95
"""A larger one has to do better than this part of the squared error."""


def _features(samples: Sequence[Sample], free: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.array(
        [(1.0, max(0, sample.prefill - free), sample.decode, sample.context) for sample in samples]
    ).reshape(-1, 4)


def _fit(weighted: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> tuple[Sequence[float], float]:
    """Costs that make each row about 1, none negative, and their squared error."""
    scale = np.linalg.norm(weighted, axis=0)
    scale[scale == 0] = 1.0
    weighted = weighted / scale
    best, least = [0.0] * 4, float("inf")
    for count in range(1, 5):
        for chosen in combinations(range(4), count):
            found = np.linalg.lstsq(weighted[:, chosen], np.ones(len(weighted)), rcond=None)[0]
            if (found < 0).any():
                continue
            costs = np.zeros(4)
            costs[list(chosen)] = found
            error = float(np.sum((weighted @ costs - 1.0) ** 2))
            if error < least:
                best, least = list(costs / scale), error
    return best, least


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
