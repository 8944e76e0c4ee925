"""How long a simulated step takes: from a roofline of the GPU and the model, or from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from control_plane.contracts.sizing import roofline
from control_plane.contracts.sizing.roofline import Efficiency, Roofline
from control_plane.contracts.sizing.step_cost import Residual, StepCost, regime_of
from workers.engine.sim.scheduled import Row


class StepTimer(Protocol):
    def seconds(self, batch: Sequence[Row], step: int) -> float:
        """Of one step with this batch, from its schedule to its tokens. The batch has a row. ``step``, its number,
        decides what chance decides elsewhere."""
        ...

    def decodes(self, requests: int, context: int) -> float | None:
        """On average, of one step in which so many requests decode, ``context`` tokens of theirs in the cache.

        Convex in ``context``. None where that does not say it all.
        """
        ...


class RooflineTimer:
    def __init__(self, line: Roofline, efficiency: Efficiency) -> None:
        self._line = line
        self._efficiency = efficiency
        self._windows = any(kind.window for kind in line.shape.kinds)

    def seconds(self, batch: Sequence[Row], step: int) -> float:
        tokens = context = 0
        for row in batch:
            tokens += row[2]
            context += row[3]
        if tokens == len(batch) and not self._windows:
            return self._line.decodes(tokens, context, self._efficiency).seconds
        return self._line.step_time([roofline.Row(row[2], row[3]) for row in batch], self._efficiency).seconds

    def decodes(self, requests: int, context: int) -> float | None:
        return None if self._windows else self._line.decodes(requests, context, self._efficiency).seconds


class MeasuredTimer:
    """What was fitted to the steps of a real engine; a step takes more or less than that as those did."""

    def __init__(self, cost: StepCost, residuals: Sequence[Residual] = ()) -> None:
        self._cost = cost
        self._ratios = {residual.regime: residual.ratios for residual in residuals if residual.ratios}
        self._means = {regime: sum(ratios) / len(ratios) for regime, ratios in self._ratios.items()}

    def seconds(self, batch: Sequence[Row], step: int) -> float:
        prefill = decode = context = 0
        for row in batch:
            context += row[3]
            if row[2] == 1:
                decode += 1
            else:
                prefill += row[2]
        seconds = self._cost.seconds(prefill, decode, context)
        ratios = self._ratios.get(regime_of(prefill, decode))
        return seconds * ratios[int(step * _GOLDEN % 1.0 * len(ratios))] if ratios else seconds

    def decodes(self, requests: int, context: int) -> float | None:
        return self._cost.seconds(0, requests, context) * self._means.get(regime_of(0, requests), 1.0)


_GOLDEN = (5**0.5 - 1) / 2
"""Its multiples, modulo 1, are spread evenly from the first on: a few steps have the distribution of many."""
