"""How long a simulated step takes: from a roofline of the GPU and the model, or from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from control_plane.contracts.sizing import roofline
from control_plane.contracts.sizing.roofline import Efficiency, Roofline
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


@dataclass(frozen=True, slots=True)
class MeasuredTimer:
    """Seconds, as they were fitted to the steps of a real engine (``calibration``).

    A step costs ``step_s``, and for each row that computes one token ``decode_s``, for each token of the others
    ``prefill_s``, and for each token that any row attends to in the cache ``context_s``.
    """

    step_s: float
    prefill_s: float
    decode_s: float
    context_s: float

    def seconds(self, batch: Sequence[Row]) -> float:
        prefill = decode = context = 0
        for row in batch:
            context += row[3]
            if row[2] == 1:
                decode += 1
            else:
                prefill += row[2]
        return self.step_s + prefill * self.prefill_s + decode * self.decode_s + context * self.context_s

    def decodes(self, requests: int, context: int) -> float | None:
        return self.step_s + requests * self.decode_s + context * self.context_s
