"""What a step costs, from steps that were measured: a few numbers, fitted by least squares.

A step costs ``step_s``, and for the rows that compute one token what ``decode`` says of so many of them, for each token
of the other rows beyond the first ``prefill_free`` of them ``prefill_s``, and for each token in the cache of any row
``context_s``. On a GPU the first tokens of prompts are free: the step reads all weights anyway, and multiplies
meanwhile. Rows that decode are no straight line: kernels change with their number.

Errors count relative to the step: a long one must not drown a hundred short ones. What is left over, the same step now
faster and now slower, is kept as a distribution by kind of step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.sizing.least_squares import non_negative
from control_plane.contracts.step import EngineStep


def regime_of(prefill: int, decode: int) -> str:
    """The kind of a step, from its tokens of rows with several and its rows with one."""
    if prefill:
        return "mixed" if decode else "prefill"
    return "decode alone" if decode == 1 else "decode together"


class Sample(NamedTuple):
    """One step: tokens of rows with several, rows with one, tokens in the cache of all, and its time in seconds."""

    prefill: int
    decode: int
    context: int
    seconds: float

    @property
    def regime(self) -> str:
        return regime_of(self.prefill, self.decode)


@dataclass(frozen=True, slots=True)
class StepCost:
    """Seconds, and tokens a step for ``prefill_free``. ``decode``: rows, ascending from above 0, and what so many cost;
    in between on a line, outside in proportion."""

    step_s: float
    prefill_s: float
    decode: tuple[tuple[int, float], ...]
    context_s: float
    prefill_free: int = 0

    def seconds(self, prefill: int, decode: int, context: int) -> float:
        paid = max(0, prefill - self.prefill_free)
        return self.step_s + paid * self.prefill_s + self.decode_s(decode) + context * self.context_s

    def decode_s(self, rows: int) -> float:
        low, low_s = 0, 0.0
        for high, high_s in self.decode:
            if rows <= high:
                return low_s + (high_s - low_s) * (rows - low) / (high - low)
            low, low_s = high, high_s
        return low_s * rows / low


@dataclass(frozen=True, slots=True)
class Residual:
    """``median`` and ``p90`` of |predicted ÷ measured − 1| over ``steps`` steps; ``ratios``: measured ÷ predicted, at
    the middles of equally likely parts, ascending. Without them every step is as predicted."""

    regime: str
    steps: int
    median: float
    p90: float
    ratios: tuple[float, ...] = ()


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
    if len(samples) < 8 or np.linalg.matrix_rank(_features(samples, 0, (1,))) < 4:
        raise InvalidRequest(
            f"{len(samples)} steps do not tell the costs apart: batches, prompts and contexts must differ",
            param="steps",
        )
    longest, points = max(sample.prefill for sample in samples), _points(samples)
    best, least = StepCost(0, 0, (), 0), float("inf")
    for free in (each for each in _FREE if each < longest):
        costs, error = _fit(_features(samples, free, points), seconds)
        if error < least * _BETTER:
            step, prefill, context, *decode = (float(cost) for cost in costs)
            best = StepCost(step, prefill, tuple(zip(points, decode, strict=True)), context, free)
            least = error
    return best


_FREE = (0, *(round(2 ** (half / 2)) for half in range(8, 21)))
"""Tried for ``prefill_free``: 16 to 1,024 tokens, each √2 times the one before."""

_BETTER = 0.95
"""A larger one has to do better than this part of the squared error."""

_ROUNDS = 3
_PARTS = 20


def _points(samples: Sequence[Sample]) -> tuple[int, ...]:
    """The powers of two near which a number of decoding rows was measured."""
    rows = {sample.decode for sample in samples if sample.decode}
    powers = (2**power for power in range(max(rows).bit_length() + 1))
    return tuple(power for power in powers if any(power / 2**0.5 <= each <= power * 2**0.5 for each in rows))


def _features(
    samples: Sequence[Sample], free: int, points: tuple[int, ...]
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    shares = {rows: _shares(rows, points) for rows in {sample.decode for sample in samples}}
    return np.array(
        [(1.0, max(0, sample.prefill - free), sample.context, *shares[sample.decode]) for sample in samples]
    ).reshape(-1, 3 + len(points))


def _shares(rows: int, points: tuple[int, ...]) -> list[float]:
    """How much each point says of so many rows."""
    return [
        StepCost(0, 0, tuple((each, float(each == point)) for each in points), 0).decode_s(rows) for point in points
    ]


def _fit(
    features: np.ndarray[tuple[int, int], np.dtype[np.float64]], seconds: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], float]:
    """Costs of the features, none negative, and their squared error. Errors are relative to what is predicted, since
    those relative to what was measured would make the slow steps count less than the fast ones; a few rounds find it.
    """
    expected = seconds
    for _ in range(_ROUNDS):
        costs = non_negative(features / expected[:, None], seconds / expected)
        expected = np.maximum(features @ costs, seconds * 1e-3)
    return costs, float(np.sum((features @ costs / seconds - 1.0) ** 2))


def residuals(cost: StepCost, samples: Sequence[Sample]) -> tuple[Residual, ...]:
    """By regime, in the order in which they came up."""
    ratios: dict[str, list[float]] = {}
    for sample in samples:
        ratios.setdefault(sample.regime, []).append(sample.seconds / cost.seconds(*sample[:3]))
    return tuple(_residual(regime, np.array(found)) for regime, found in ratios.items())


def _residual(regime: str, ratios: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Residual:
    wrong = np.abs(1.0 / ratios - 1.0)
    middles = (np.arange(_PARTS) + 0.5) / _PARTS
    return Residual(
        regime,
        len(ratios),
        float(np.median(wrong)),
        float(np.quantile(wrong, 0.9)),
        tuple(float(ratio) for ratio in np.quantile(ratios, middles)),
    )
