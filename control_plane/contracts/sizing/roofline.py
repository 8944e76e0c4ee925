"""How long one step takes at least: bytes over bandwidth or operations over rate, whichever is slower (a roofline).

A step has four kinds of kernel, and each is bound on its own: dense projections, experts, attention, output head. Their
times add up; all-reduces of tensor parallelism and a fixed cost of the engine come on top. Left out, because they are
small beside these: norms, activations' own traffic, sampling.

S. Williams, A. Waterman, D. Patterson: Roofline, CACM 52(4), 2009. Transformer inference by the same bound:
R. Pope et al., arXiv 2211.05102.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from control_plane.contracts.sizing.gpus import Gpu
from control_plane.contracts.sizing.model_shape import ModelShape, Use, Weight
from control_plane.contracts.sizing.number_format import NumberFormat


class Row(NamedTuple):
    """One request in a step: ``tokens`` computed in it, after ``context`` tokens that are in the cache already."""

    tokens: int
    context: int


class Bound(StrEnum):
    """What most of a step's time goes to."""

    WEIGHTS = "weights"  # reading them
    KV = "kv cache"  # reading it
    COMPUTE = "compute"
    LINKS = "links"  # all-reduces between GPUs
    OVERHEAD = "overhead"  # the engine's fixed cost


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What of the published figures is reached, and what a step costs besides; times in seconds."""

    bandwidth: float = 1.0
    compute: float = 1.0
    link: float = 1.0
    all_reduce_s: float = 0.0
    step_s: float = 0.0


CEILING = Efficiency()
"""The published figures themselves: no engine is faster."""

TYPICAL = Efficiency(bandwidth=0.8, compute=0.65, link=0.7, all_reduce_s=10e-6, step_s=1e-3)
"""What a good engine reaches, to start from where nothing was measured.

0.8 of the bandwidth and 10 µs an exchange are aiconfigurator's figures (ai-dynamo/aiconfigurator, ``systems/*.yaml``:
``mem_bw_empirical_scaling_factor``, ``p2p_latency``); the others are assumptions. A calibrated profile replaces them.
"""


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds by what they go to; they add up to ``seconds``."""

    weights_s: float = 0.0
    kv_s: float = 0.0
    compute_s: float = 0.0
    links_s: float = 0.0
    overhead_s: float = 0.0

    @property
    def seconds(self) -> float:
        return self.weights_s + self.kv_s + self.compute_s + self.links_s + self.overhead_s

    @property
    def bound(self) -> Bound:
        parts = {
            Bound.WEIGHTS: self.weights_s,
            Bound.KV: self.kv_s,
            Bound.COMPUTE: self.compute_s,
            Bound.LINKS: self.links_s,
            Bound.OVERHEAD: self.overhead_s,
        }
        return max(parts, key=lambda bound: parts[bound])


@dataclass(frozen=True, slots=True)
class Work:
    """Bytes read and operations done by one kind of kernel on one GPU, and the rate these run at (operations/s)."""

    bytes: float
    operations: float
    rate: float


@dataclass(frozen=True, slots=True)
class StepWork:
    """What one GPU has to do in a step. ``exchanged`` is bytes to all-reduce in one of ``exchanges``."""

    dense: Work
    experts: Work
    attention: Work
    head: Work
    exchanges: int
    exchanged: float


NO_WORK = StepWork(Work(0, 0, 1), Work(0, 0, 1), Work(0, 0, 1), Work(0, 0, 1), 0, 0)


class Roofline:
    """A model on so many GPUs of a kind; everything that does not depend on the batch is worked out once.

    ``dense``, ``head`` and ``routed`` are the kernels' work for one token, row, and token that meets every expert.
    ``kv_bytes`` are read for a token in one layer, ``decode_pair`` and ``prefill_pair`` operations done for a query–key
    pair in one layer, of which ``whole`` attend to everything; ``token_bytes`` a token puts into each exchange.
    """

    def __init__(self, shape: ModelShape, gpu: Gpu, tp: int = 1, kv: NumberFormat | None = None) -> None:
        self.shape, self.gpu, self.tp = shape, gpu, tp
        self.dense = self._resident(Use.EVERY_TOKEN)
        self.routed = self._resident(Use.ROUTED)
        self.head = self._resident(Use.EVERY_ROW)
        self.kv_bytes = shape.kv_bytes_per_layer(kv, tp)
        heads = shape.heads / tp
        if shape.latent is None:
            self.decode_pair = self.prefill_pair = 4 * heads * shape.head_dim
        else:
            # Decoding attends in the latent's own space, prefill with the heads expanded.
            self.decode_pair = 2 * heads * (shape.latent.cached + shape.latent.kv_rank)
            self.prefill_pair = 2 * heads * (shape.latent.nope + shape.latent.rope + shape.latent.value)
        self.whole = sum(kind.layers for kind in shape.kinds if not kind.window)
        self._windows = tuple((kind.layers, kind.window) for kind in shape.kinds if kind.window)
        self.exchanges = 2 * shape.layers if tp > 1 else 0
        self.token_bytes = shape.hidden * shape.base_format.bytes * 2 * (tp - 1) / tp

    def work(self, rows: Iterable[Row]) -> StepWork:
        """What a step with these rows is. An empty step is no work."""
        tokens = count = 0
        read = pairs = 0.0
        whole, windows = self.whole, self._windows
        for row in rows:
            new, context = row
            if new <= 0:
                continue
            tokens += new
            count += 1
            read += whole * (context + new)
            met = whole * new * (context + (new + 1) / 2)
            for layers, window in windows:
                read += layers * min(context + new, window + new - 1)
                met += layers * attended(row, window)
            pairs += met * (self.decode_pair if new == 1 else self.prefill_pair)
        return self._work(tokens, count, read, pairs)

    def _work(self, tokens: int, rows: int, read: float, pairs: float) -> StepWork:
        """``read`` token-layers of the cache, ``pairs`` operations of attention."""
        if not rows:
            return NO_WORK
        experts = NO_WORK.experts
        if self.shape.experts is not None:
            used = self.shape.experts.touched(tokens) / self.shape.experts.count
            chosen = self.shape.experts.per_token / self.shape.experts.count
            experts = Work(self.routed.bytes * used, self.routed.operations * tokens * chosen, self.routed.rate)
        return StepWork(
            dense=Work(self.dense.bytes, self.dense.operations * tokens, self.dense.rate),
            experts=experts,
            attention=Work(read * self.kv_bytes, pairs, self.gpu.bf16),
            head=Work(self.head.bytes, self.head.operations * rows, self.head.rate),
            exchanges=self.exchanges,
            exchanged=self.token_bytes * tokens,
        )

    def step_time(self, rows: Iterable[Row], efficiency: Efficiency = CEILING) -> StepTime:
        """Seconds of a step with these rows."""
        return self.time_of(self.work(rows), efficiency)

    def decodes(self, requests: int, total_context: int, efficiency: Efficiency = CEILING) -> StepTime:
        """A step in which so many requests decode one token each; their contexts add up to ``total_context``.

        The same as ``step_time`` with a row each as long as no context passes a window, and without the loop.
        """
        read = float(self.shape.layers * (total_context + requests))
        return self.time_of(self._work(requests, requests, read, read * self.decode_pair), efficiency)

    def time_of(self, work: StepWork, efficiency: Efficiency = CEILING) -> StepTime:
        """Seconds that the work takes."""
        if not work.dense.operations:
            return StepTime()
        weights = kv = compute = 0.0
        for part in (work.dense, work.experts, work.head, work.attention):
            reading = part.bytes / (self.gpu.bandwidth * efficiency.bandwidth)
            multiplying = part.operations / (part.rate * efficiency.compute)
            if multiplying > reading:
                compute += multiplying
            elif part is work.attention:
                kv += reading
            else:
                weights += reading
        links = work.exchanges * (efficiency.all_reduce_s + work.exchanged / (self.gpu.link * efficiency.link))
        return StepTime(weights, kv, compute, links, efficiency.step_s)

    def decode_step(self, requests: int, context: int, efficiency: Efficiency = CEILING) -> StepTime:
        """A step in which so many requests decode one token each, ``context`` tokens in the cache."""
        return self.step_time([Row(1, context)] * requests, efficiency)

    def prefill(self, prompt: int, efficiency: Efficiency = CEILING, *, chunk: int = 0, cached: int = 0) -> float:
        """Seconds to compute one prompt alone, in chunks of at most ``chunk`` tokens (0: in one)."""
        done, total = cached, 0.0
        while done < prompt:
            now = min(chunk or prompt, prompt - done)
            total += self.step_time([Row(now, done)], efficiency).seconds
            done += now
        return total

    def _resident(self, use: Use) -> Work:
        """Bytes on one GPU of the weights used so, and the operations of one token through all of them."""
        weights = [weight for weight in self.shape.weights if weight.use is use]
        share = {weight: weight.share(self.tp, self.shape.kv_heads) for weight in weights}
        stored = sum(weight.bytes * share[weight] for weight in weights)
        operations = sum(2 * weight.parameters * share[weight] for weight in weights)
        seconds = sum(2 * weight.parameters * share[weight] / self._rate(weight) for weight in weights)
        return Work(stored, operations, operations / seconds if seconds else self.gpu.bf16)

    def _rate(self, weight: Weight) -> float:
        return self.gpu.rate(weight.format.math)


def attended(row: Row, window: int) -> float:
    """Query–key pairs of a row in one layer: each token with itself and what is before it, within a window."""
    first, last = row.context + 1, row.context + row.tokens
    if not window or last <= window:
        return (first + last) * row.tokens / 2
    if first >= window:
        return window * row.tokens
    short = window - first
    return (first + window - 1) * short / 2 + window * (row.tokens - short)


@lru_cache(maxsize=64)
def roofline(shape: ModelShape, gpu: Gpu, tp: int = 1, kv: NumberFormat | None = None) -> Roofline:
    return Roofline(shape, gpu, tp, kv)


def step_time(
    shape: ModelShape,
    gpu: Gpu,
    tp: int,
    rows: Iterable[Row],
    efficiency: Efficiency = CEILING,
    kv: NumberFormat | None = None,
) -> StepTime:
    """Seconds of a step with these rows, and what they go to."""
    return roofline(shape, gpu, tp, kv).step_time(rows, efficiency)
