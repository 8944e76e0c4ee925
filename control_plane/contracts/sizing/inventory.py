"""Every weight of a model, counted from its sizes: how many parameters, in which format, split how, used when."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from control_plane.contracts.sizing.config_fields import Fields
from control_plane.contracts.sizing.model_shape import ModelShape, Split, Use, Weight
from control_plane.contracts.sizing.number_format import NumberFormat
from control_plane.contracts.sizing.quantisation import Quantisation

_UNGATED = {"gpt2", "gpt_bigcode", "gpt_neox", "opt", "phi", "starcoder2", "falcon", "nemotron", "gptj"}
_QKV_BIAS = {"qwen2", "qwen2_moe", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_vl", "gpt2", "opt"}
_FOUR_NORMS = {"gemma2", "gemma3_text", "glm4"}
_HEAD_NORMS = {"qwen3", "qwen3_moe", "gemma3_text", "qwen3_vl_text", "qwen3_vl_moe_text"}
_NO_OUTPUT_BIAS = {"qwen3", "qwen3_moe", "glm4", "glm4_moe"}


def inventory(shape: ModelShape, fields: Fields, quantised: Quantisation, vision: Any) -> ModelShape:
    """The shape with its weights."""
    base = shape.base_format
    attention, linear = quantised.attention or base, quantised.linear or base
    weights = [
        *_embeddings(shape, quantised.head or base),
        *(_latent(shape, attention) if shape.latent else _heads(shape, attention)),
        *_feed_forward(shape, linear),
        *_experts(shape, fields, linear, quantised.experts or base),
        Weight("norms and biases", _small(shape, fields), base, Split.REPLICATED),
    ]
    notes = shape.notes
    tower = _vision_tower(vision, shape.hidden)
    if tower:
        weights.append(Weight("vision tower", tower, base, use=Use.APART))
    elif isinstance(vision, Mapping) and vision:
        notes += ("the vision tower is not counted",)
    return dataclasses.replace(shape, weights=tuple(w for w in weights if w.parameters), notes=notes)


def _embeddings(shape: ModelShape, head: NumberFormat) -> list[Weight]:
    size = shape.vocab * shape.hidden
    if shape.tied:
        return [Weight("embeddings and output head", size, shape.base_format, use=Use.EVERY_ROW)]
    return [
        Weight("embeddings", size, shape.base_format, use=Use.LOOKED_UP),
        Weight("output head", size, head, use=Use.EVERY_ROW),
    ]


def _heads(shape: ModelShape, stored: NumberFormat) -> list[Weight]:
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    return [
        Weight("attention: queries, output", shape.layers * 2 * shape.hidden * queries, stored),
        Weight("attention: keys, values", shape.layers * 2 * shape.hidden * keys, stored, Split.KV_HEADS),
    ]


def _latent(shape: ModelShape, stored: NumberFormat) -> list[Weight]:
    """MLA as in DeepSeek-V2 (arXiv 2405.04434): down-projections are whole on every GPU, the rest goes by heads."""
    latent = shape.latent
    assert latent is not None
    query = shape.heads * (latent.nope + latent.rope)
    up = latent.kv_rank * shape.heads * (latent.nope + latent.value) + shape.heads * latent.value * shape.hidden
    up += (latent.q_rank or shape.hidden) * query
    down = shape.hidden * (latent.cached + latent.q_rank)
    return [
        Weight("attention: up, output", shape.layers * up, stored),
        Weight("attention: down", shape.layers * down, stored, Split.REPLICATED),
    ]


def _feed_forward(shape: ModelShape, stored: NumberFormat) -> list[Weight]:
    layers = shape.layers - (shape.experts.layers if shape.experts else 0)
    matrices = 2 if shape.family in _UNGATED else 3
    return [Weight("feed-forward", layers * matrices * shape.hidden * shape.intermediate, stored)]


def _experts(shape: ModelShape, fields: Fields, linear: NumberFormat, routed: NumberFormat) -> list[Weight]:
    experts = shape.experts
    if experts is None:
        return []
    gate = shape.hidden * experts.count
    if shape.family in ("deepseek_v3", "kimi_k2", "gpt_oss"):
        gate += experts.count  # a bias for each expert
    if fields.get("shared_expert_intermediate_size"):
        gate += shape.hidden  # Qwen2-MoE weighs its shared expert
    each = 3 * shape.hidden * experts.intermediate
    weights = [
        Weight("router", experts.layers * gate, shape.base_format, Split.REPLICATED),
        Weight("shared experts", experts.layers * 3 * shape.hidden * experts.shared_intermediate, linear),
        Weight("experts", experts.layers * experts.count * each, routed, use=Use.ROUTED),
    ]
    if shape.family == "gpt_oss":
        biases = experts.layers * experts.count * (2 * experts.intermediate + shape.hidden)
        weights.append(Weight("expert biases", biases, shape.base_format, use=Use.ROUTED))
    return weights


def _small(shape: ModelShape, fields: Fields) -> int:
    """Norms, biases and attention sinks: a hundredth of a percent, but published counts include them."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    layer = (4 if shape.family in _FOUR_NORMS else 2) * shape.hidden
    if shape.latent:
        layer += shape.latent.kv_rank + shape.latent.q_rank
    elif shape.family in _HEAD_NORMS:
        layer += 2 * shape.head_dim
    elif shape.family == "olmo2":
        layer += queries + keys
    if shape.family in _QKV_BIAS:
        layer += queries + 2 * keys
    elif fields.flag("attention_bias") and not shape.latent:
        layer += queries + 2 * keys + (0 if shape.family in _NO_OUTPUT_BIAS else shape.hidden)
    if fields.flag("mlp_bias"):
        layer += 2 * shape.intermediate + shape.hidden
    if shape.family == "gpt_oss":
        layer += shape.heads  # a sink for each head
    return shape.layers * layer + shape.hidden


def _vision_tower(vision: Any, hidden: int) -> int:
    """Parameters of a plain vision transformer and one projection to the language model; 0 where it is none."""
    if not isinstance(vision, Mapping):
        return 0
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "patch_size", "image_size")
    sizes = [vision.get(name) for name in names]
    if not all(isinstance(size, int) and 0 < size < 1 << 20 for size in sizes):
        return 0
    width, inner, layers, patch, image = (int(size) for size in sizes if size is not None)
    layer = 4 * (width * width + width) + 2 * width * inner + inner + width + 4 * width
    embeddings = patch * patch * 3 * width + width + (image // patch) ** 2 * width
    return layers * layer + embeddings + 2 * width + width * hidden + width
