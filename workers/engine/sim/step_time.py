"""How long a simulated step takes: from a roofline of the GPU and the model, or from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from control_plane.contracts.sizing import roofline
from control_plane.contracts.sizing.roofline import Efficiency, Roofline
from control_plane.contracts.sizing.step_cost import StepCost
from workers.engine.sim.scheduled import Row


class StepTimer(Protocol):
    def seconds(self, batch: Sequence[Row]) -> float:
        """Of one step with this batch, from its schedule to its tokens. The batch has a row."""
        ...

    def decodes(self, requests: int, context: int) -> float | None:
        """Of one step in which so many requests decode, ``context`` tokens of theirs in the cache.

        Convex in ``context``. None where that does not say it all.
        """
        ...


class RooflineTimer:
    def __init__(self, line: Roofline, efficiency: Efficiency) -> None:
        self._line = line
        self._efficiency = efficiency
        self._windows = any(kind.window for kind in line.shape.kinds)

    def seconds(self, batch: Sequence[Row]) -> float:
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
    """What was fitted to the steps of a real engine."""

    def __init__(self, cost: StepCost) -> None:
        self._cost = cost

    def seconds(self, batch: Sequence[Row]) -> float:
        prefill = decode = context = 0
        for row in batch:
            context += row[3]
            if row[2] == 1:
                decode += 1
            else:
                prefill += row[2]
        return self._cost.seconds(prefill, decode, context)

    def decodes(self, requests: int, context: int) -> float | None:
        return self._cost.seconds(0, requests, context)
