"""The KV cache in blocks, as vLLM lays it out: groups of layers that draw from one pool.

Layers of one kind form groups of equal size, and a block of the pool holds one page of each layer in a group. A model
of several kinds is padded to equal groups (vllm/v1/core/kv_cache_utils.py, ``_get_kv_cache_groups_uniform_page_size``).
"""

from __future__ import annotations

from dataclasses import dataclass

from control_plane.contracts.sizing.model_shape import Attention, LayerKind, ModelShape
from control_plane.contracts.sizing.number_format import NumberFormat


def _up(value: float, step: int) -> int:
    return int(-(-value // step))


@dataclass(frozen=True, slots=True)
class KvGroup:
    """Layers that share one block table. ``window`` 0: nothing is let go before the request ends."""

    window: int

    def steady(self, context: int, block_size: int) -> int:
        """Blocks of one request that decodes at this context, its window anywhere in a block."""
        whole = _up(context, block_size)
        return min(whole, _up(self.window - 1, block_size) + 1) if self.window else whole

    def peak(self, context: int, block_size: int, in_flight: int) -> int:
        """Blocks one request may hold at once, prefill included: what vLLM admits and reports by.

        A window keeps what it still reaches and the ``in_flight`` tokens scheduled but not settled
        (``SlidingWindowSpec.max_admission_blocks_per_request``).
        """
        if not self.window:
            return _up(context, block_size)
        return _up(min(self.window - 1 + in_flight, context), block_size) + 1


@dataclass(frozen=True, slots=True)
class KvLayout:
    """``page_bytes``: a block of one layer on one GPU; ``layers_per_group``: pages in a block of the pool."""

    block_size: int
    page_bytes: int
    layers_per_group: int
    groups: tuple[KvGroup, ...]

    @property
    def block_bytes(self) -> int:
        """Bytes of one block of the pool, on one GPU."""
        return self.page_bytes * self.layers_per_group

    def blocks(self, room: float) -> int:
        """Blocks that fit in so many bytes; vLLM's ``num_gpu_blocks``, its null block included."""
        return max(0, int(room // self.block_bytes))

    def peak_blocks(self, context: int, in_flight: int) -> int:
        return sum(group.peak(context, self.block_size, in_flight) for group in self.groups)

    def needed_blocks(self, context: int, requests: int, in_flight: int) -> int:
        """Blocks for so many requests at this context. Tokens in flight are a budget of all of them together."""
        total = 0
        for group in self.groups:
            steady = requests * group.steady(context, self.block_size)
            extra = _up(min(in_flight, requests * context), self.block_size) if group.window else 0
            total += min(steady + extra, requests * group.peak(context, self.block_size, in_flight))
        return total

    def most_requests(self, context: int, blocks: int, in_flight: int) -> int:
        """The largest number of requests whose blocks fit; one block is vLLM's null block."""
        low, high = 0, max(0, blocks)
        while low < high:
            middle = (low + high + 1) // 2
            if self.needed_blocks(context, middle, in_flight) <= blocks - 1:
                low = middle
            else:
                high = middle - 1
        return low

    def reported_concurrency(self, context: int, blocks: int, in_flight: int) -> float:
        """What vLLM logs at start as "Maximum concurrency for … tokens per request"."""
        return blocks / self.peak_blocks(context, in_flight)


def kv_layout(
    shape: ModelShape, kv: NumberFormat | None = None, tp: int = 1, block_size: int = 16, *, hybrid: bool = True
) -> KvLayout:
    """``hybrid`` off (vLLM on CPUs; Llama 4's chunks by default): windows save no memory among full layers."""
    page = round(shape.kv_bytes_per_layer(kv, tp) * block_size)
    kinds = _allocated(shape.kinds, hybrid)
    if len(kinds) == 1:
        return KvLayout(block_size, page, shape.layers, (KvGroup(kinds[0].window),))
    fewest, most = min(kind.layers for kind in kinds), max(kind.layers for kind in kinds)
    size = most if most < fewest * 1.5 else fewest
    groups = tuple(KvGroup(kind.window) for kind in kinds for _ in range(_up(kind.layers, size)))
    return KvLayout(block_size, page, size, groups)


def _allocated(kinds: tuple[LayerKind, ...], hybrid: bool) -> tuple[LayerKind, ...]:
    """What the kinds are to the allocator: chunked attention makes vLLM keep every layer whole."""
    layers = sum(kind.layers for kind in kinds)
    if len(kinds) > 1 and (not hybrid or any(kind.attention is Attention.CHUNKED for kind in kinds)):
        return (LayerKind(Attention.FULL, layers),)
    return tuple(
        kind if kind.attention is Attention.SLIDING else LayerKind(kind.attention, kind.layers) for kind in kinds
    )
