"""The shape of a decoder-only transformer: what its sizes and its work follow from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from control_plane.contracts.sizing.number_format import BF16, NumberFormat


class Attention(StrEnum):
    """What one layer keeps of earlier tokens, and reads of them."""

    FULL = "full"  # keys and values of every token
    SLIDING = "sliding"  # of the last ``window`` tokens
    CHUNKED = "chunked"  # of the tokens in the same chunk of ``window`` (Llama 4); kept like FULL by default
    LATENT = "latent"  # one compressed vector a token for all heads (MLA: arXiv 2405.04434)


@dataclass(frozen=True, slots=True)
class LayerKind:
    """``layers`` layers of one kind; ``window`` in tokens, 0 where there is none."""

    attention: Attention
    layers: int
    window: int = 0

    def reads(self, context: int) -> int:
        """Tokens that the last of ``context`` tokens attends to, itself included."""
        return min(context, self.window) if self.window else context


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention; all in elements. ``q_rank`` 0: the query is not compressed."""

    kv_rank: int
    q_rank: int
    nope: int
    rope: int
    value: int

    @property
    def cached(self) -> int:
        """Elements a token and layer keeps: the latent and one key with the position."""
        return self.kv_rank + self.rope


@dataclass(frozen=True, slots=True)
class Experts:
    """``layers`` layers with ``count`` routed experts each, of which a token uses ``per_token``."""

    layers: int
    count: int
    per_token: int
    intermediate: int
    shared_intermediate: int = 0

    def touched(self, tokens: int) -> float:
        """Experts of one layer that at least one of the tokens uses: expected value, each choice equally likely.

        ``count · (1 − (1 − per_token / count)^tokens)``. Real routers are a little uneven, so this is an upper bound.
        """
        return self.count * (1 - (1 - self.per_token / self.count) ** tokens)


class Split(Enum):
    """How tensor parallelism lays a weight on the GPUs."""

    EVENLY = "evenly"
    KV_HEADS = "kv heads"  # whole heads; each on several GPUs where there are fewer heads than GPUs
    REPLICATED = "replicated"


class Use(Enum):
    """How a step uses a weight."""

    EVERY_TOKEN = "every token"  # read once a step, multiplied for each token
    ROUTED = "routed"  # read for the experts touched, multiplied for the experts of each token
    EVERY_ROW = "every row"  # the output head: read once a step, multiplied once a request
    LOOKED_UP = "looked up"  # embeddings: only the rows of the tokens
    APART = "apart"  # a vision tower: holds memory, does no work in a text step


@dataclass(frozen=True, slots=True)
class Weight:
    """One kind of weight over all layers. ``parameters`` counts each once, however many GPUs hold it."""

    name: str
    parameters: int
    format: NumberFormat
    split: Split = Split.EVENLY
    use: Use = Use.EVERY_TOKEN

    @property
    def bytes(self) -> float:
        return self.parameters * self.format.bytes

    def share(self, tp: int, kv_heads: int) -> float:
        """The part of it that one of ``tp`` GPUs holds."""
        if self.split is Split.REPLICATED:
            return 1.0
        if self.split is Split.KV_HEADS:
            return 1 / min(tp, kv_heads)
        return 1 / tp


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A model. ``intermediate`` is the widest dense feed-forward layer, 0 where all layers are experts.

    ``kv_heads`` and ``head_dim`` are of the cache: with a latent they are 1 and the latent's width. ``notes`` say what
    was read with less than certainty.
    """

    name: str
    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    max_context: int
    kinds: tuple[LayerKind, ...]
    weights: tuple[Weight, ...]
    tied: bool = False
    latent: Latent | None = None
    experts: Experts | None = None
    base_format: NumberFormat = BF16
    weight_format: NumberFormat = BF16
    notes: tuple[str, ...] = ()

    @property
    def parameters(self) -> int:
        return sum(weight.parameters for weight in self.weights)

    @property
    def active_parameters(self) -> int:
        """Parameters that one token goes through: all, but of the routed experts only its own."""
        if self.experts is None:
            return self.parameters
        share = self.experts.per_token / self.experts.count
        routed = sum(weight.parameters for weight in self.weights if weight.use is Use.ROUTED)
        return self.parameters - routed + round(routed * share)

    @property
    def weight_bytes(self) -> float:
        return sum(weight.bytes for weight in self.weights)

    def weight_bytes_per_gpu(self, tp: int = 1) -> float:
        return sum(weight.bytes * weight.share(tp, self.kv_heads) for weight in self.weights)

    def kv_bytes_per_layer(self, kv: NumberFormat | None = None, tp: int = 1) -> float:
        """Bytes that one token keeps in one layer, on one of ``tp`` GPUs. A latent is whole on each of them."""
        size = (kv or self.base_format).bytes
        if self.latent is not None:
            return self.latent.cached * size
        return 2 * max(1, self.kv_heads // tp) * self.head_dim * size

    def kv_bytes_per_token(self, kv: NumberFormat | None = None, tp: int = 1) -> float:
        """Bytes that one token keeps in all layers, on one GPU, as long as every window still reaches it."""
        return self.layers * self.kv_bytes_per_layer(kv, tp)
