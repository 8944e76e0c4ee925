"""Which layers look back how far, from a ``config.json``."""

from __future__ import annotations

from collections import Counter

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.sizing.config_fields import Fields
from control_plane.contracts.sizing.model_shape import Attention, LayerKind

_TYPES = {
    "full_attention": Attention.FULL,
    "attention": Attention.FULL,
    "sliding_attention": Attention.SLIDING,
    "sliding_window": Attention.SLIDING,
    "chunked_attention": Attention.CHUNKED,
}


def layer_kinds(fields: Fields, family: str, layers: int, max_context: int) -> tuple[LayerKind, ...]:
    """Kinds with the number of their layers, full attention first.

    Raises InvalidRequest for layers that are no attention (Mamba, linear attention, convolution).
    """
    if fields.get("kv_lora_rank"):
        return (LayerKind(Attention.LATENT, layers),)
    counts = Counter(_each(fields, family, layers))
    window = fields.number("sliding_window", 0, least=0) if counts[Attention.SLIDING] else 0
    chunk = fields.number("attention_chunk_size", 0, least=0) if counts[Attention.CHUNKED] else 0
    kinds = []
    for attention in (Attention.FULL, Attention.CHUNKED, Attention.SLIDING):
        reach = {Attention.FULL: 0, Attention.CHUNKED: chunk, Attention.SLIDING: window}[attention]
        if counts[attention]:
            local = 0 < reach < max_context
            kinds.append(LayerKind(attention if local else Attention.FULL, counts[attention], reach if local else 0))
    full = sum(kind.layers for kind in kinds if kind.attention is Attention.FULL)
    local_kinds = tuple(kind for kind in kinds if kind.attention is not Attention.FULL)
    return (LayerKind(Attention.FULL, full), *local_kinds) if full else local_kinds


def _each(fields: Fields, family: str, layers: int) -> list[Attention]:
    types = fields.get("layer_types")
    if isinstance(types, list) and types:
        if len(types) != layers:
            raise InvalidRequest(
                f"config.json: layer_types has {len(types)} entries, num_hidden_layers is {layers}", param="layer_types"
            )
        unknown = next((kind for kind in types if str(kind) not in _TYPES), None)
        if unknown is not None:
            raise InvalidRequest(
                f"config.json: layer_types has {unknown!r:.40}, which keeps no KV cache of a kind known here",
                param="layer_types",
                hint="inferdeck plan --list",
            )
        return [_TYPES[str(kind)] for kind in types]
    if family == "llama4_text":
        nope = fields.get("no_rope_layers")
        step = fields.number("no_rope_layer_interval", 4)
        rope = nope if isinstance(nope, list) and len(nope) == layers else [(i + 1) % step for i in range(layers)]
        return [Attention.CHUNKED if turned else Attention.FULL for turned in rope]
    if not fields.get("sliding_window"):
        return [Attention.FULL] * layers
    pattern = fields.get("sliding_window_pattern")
    if pattern is not None:
        step = fields.number("sliding_window_pattern")
        return [Attention.SLIDING if (i + 1) % step else Attention.FULL for i in range(layers)]
    if family.startswith("qwen"):
        first = fields.number("max_window_layers", 0, least=0) if fields.flag("use_sliding_window") else layers
        return [Attention.SLIDING if i >= first else Attention.FULL for i in range(layers)]
    return [Attention.SLIDING if fields.flag("use_sliding_window", True) else Attention.FULL] * layers
