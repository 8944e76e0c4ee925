"""How long a simulated step takes: from a roofline of the GPU and the model, or from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from control_plane.contracts.sizing import roofline
from control_plane.contracts.sizing.roofline import Efficiency, Roofline
from control_plane.contracts.sizing.step_cost import Residual, StepCost, regime_of
from workers.engine.sim.native import i64
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
    """``Roofline.step_time(...).seconds``, without a value for each part of it."""

    def __init__(self, line: Roofline, efficiency: Efficiency) -> None:
        self._line = line
        self._efficiency = efficiency
        self._windows = any(kind.window for kind in line.shape.kinds)
        self._experts = line.shape.experts
        bandwidth, compute = line.gpu.bandwidth * efficiency.bandwidth, efficiency.compute
        self._dense_s = line.dense.bytes / bandwidth
        self._dense_token_s = line.dense.operations / (line.dense.rate * compute)
        self._routed_s = line.routed.bytes / bandwidth
        self._routed_token_s = line.routed.operations / (line.routed.rate * compute)
        self._head_s = line.head.bytes / bandwidth
        self._head_row_s = line.head.operations / (line.head.rate * compute)
        self._kv_s = line.whole * line.kv_bytes / bandwidth
        self._decode_pair_s = line.whole * line.decode_pair / (line.gpu.bf16 * compute)
        self._prefill_pair_s = line.whole * line.prefill_pair / (line.gpu.bf16 * compute)
        self._fixed_s = efficiency.step_s + line.exchanges * efficiency.all_reduce_s
        self._link_token_s = (
            line.exchanges * line.token_bytes / (line.gpu.link * efficiency.link) if line.exchanges else 0.0
        )

    def seconds(self, batch: Sequence[Row], step: int) -> float:
        if self._windows:
            return self._line.step_time([roofline.Row(row[2], row[3]) for row in batch], self._efficiency).seconds
        tokens: i64 = 0
        met: i64 = 0
        pairs_s = 0.0
        for row in batch:
            new: i64 = row[2]
            context: i64 = row[3]
            tokens += new
            met += context + new
            if new == 1:
                pairs_s += float(context + 1) * self._decode_pair_s
            else:
                pairs_s += float(new) * (float(context) + float(new + 1) / 2) * self._prefill_pair_s
        return self._step(float(tokens), float(len(batch)), float(met), pairs_s)

    def decodes(self, requests: int, context: int) -> float | None:
        if self._windows:
            return None
        met = float(context + requests)
        return self._step(float(requests), float(requests), met, met * self._decode_pair_s)

    def _step(self, tokens: float, rows: float, met: float, pairs_s: float) -> float:
        """``met`` tokens are read from the cache, in each layer; ``pairs_s`` is the time to attend to them."""
        seconds = max(self._dense_s, tokens * self._dense_token_s) + max(self._head_s, rows * self._head_row_s)
        seconds += max(met * self._kv_s, pairs_s) + self._fixed_s + tokens * self._link_token_s
        experts = self._experts
        if experts is not None:
            used, chosen = experts.touched(int(tokens)) / experts.count, experts.per_token / experts.count
            seconds += max(used * self._routed_s, tokens * chosen * self._routed_token_s)
        return seconds


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
