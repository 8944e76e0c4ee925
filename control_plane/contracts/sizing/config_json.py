"""A model's shape from its ``config.json``, the file that every Hugging Face checkpoint carries."""

from __future__ import annotations

from collections.abc import Mapping

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.sizing.config_fields import Config, Fields, family_of, text_section
from control_plane.contracts.sizing.inventory import inventory
from control_plane.contracts.sizing.layer_kinds import layer_kinds
from control_plane.contracts.sizing.model_shape import Experts, Latent, ModelShape
from control_plane.contracts.sizing.number_format import Math, NumberFormat
from control_plane.contracts.sizing.quantisation import base_format, quantisation_of, uniform

_KNOWN = {
    "llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3_text", "phi3",
    "deepseek_v2", "deepseek_v3", "kimi_k2", "llama4_text", "gpt_oss", "cohere", "cohere2", "olmo2", "smollm3",
    "granite", "starcoder2", "glm4", "qwen2_5_vl", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text",
}  # fmt: skip

# A cache that is not keys and values of each token, or none at all: bytes read off these files would be wrong.
_ELSEWISE = {
    "mamba": "Mamba layers",
    "ssm": "state-space layers",
    "linear_num_key_heads": "linear attention layers",
    "linear_attn_config": "linear attention layers",
    "hybrid_override_pattern": "Mamba layers",
    "index_topk": "a sparse-attention indexer with a cache of its own",
    "is_encoder_decoder": "an encoder",
    "state_size": "state-space layers",
    "time_step_rank": "state-space layers",
    "block_configs": "layers of different shapes",
    "num_kv_shared_layers": "layers that share their KV cache",
    "attention_k_eq_v": "keys that are their own values",
}


MOST_LAYERS = 10_000


def shape_from_config(config: Config, name: str, weights: NumberFormat | None = None) -> ModelShape:
    """The shape of the model that ``config`` describes; ``weights`` stores its projections in another format.

    Raises InvalidRequest naming the field that is missing or wrong, or the part of the model that is not modelled.
    """
    if not isinstance(config, Mapping):
        raise InvalidRequest("config.json: expected an object", param="config.json")
    text, family = text_section(config), family_of(config)
    _refuse(text, family)
    fields = Fields(text, family)
    layers, hidden = fields.number("num_hidden_layers", most=MOST_LAYERS), fields.number("hidden_size")
    heads = fields.number("num_attention_heads")
    kv_heads, head_dim = fields.number("num_key_value_heads", heads), fields.number("head_dim", max(1, hidden // heads))
    max_context = fields.number("max_position_embeddings", fields.number("model_max_length", 131072))
    latent, experts = _latent(fields), _experts(fields, family, layers)
    dense = 0 if experts is not None and experts.layers == layers else _dense_width(fields, family, hidden)
    base, notes = base_format(config, text)
    quantised = quantisation_of(text, layers)
    if weights is not None:
        notes = ()
        if weights.math is Math.BF16 and weights.bits >= 16:
            base, quantised = weights, uniform(weights)
        else:
            quantised = uniform(weights)
    notes += quantised.notes
    if family not in _KNOWN:
        notes += (f"architecture {family!r:.40} is read as if it were Llama-like",)
    tied = fields.flag("tie_word_embeddings")
    shape = ModelShape(
        name=name,
        family=family,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=1 if latent else kv_heads,
        head_dim=latent.cached if latent else head_dim,
        intermediate=dense,
        vocab=fields.number("vocab_size"),
        max_context=max_context,
        kinds=layer_kinds(fields, family, layers, max_context),
        weights=(),
        tied=tied,
        latent=latent,
        experts=experts,
        base_format=base,
        weight_format=quantised.linear or quantised.experts or base,
        notes=notes,
    )
    return inventory(shape, fields, quantised, config.get("vision_config"))


def _refuse(text: Config, family: str) -> None:
    for key, what in _ELSEWISE.items():
        present = bool(text.get(key)) or (key in ("mamba", "ssm") and any(str(k).startswith(key) for k in text))
        if present or (key == "mamba" and "mamba" in family):
            raise InvalidRequest(
                f"{family or 'this model'}: {what} (config.json: {key}) are not modelled; figures would be wrong",
                param=key,
                hint="inferdeck plan --list",
            )


def _latent(fields: Fields) -> Latent | None:
    if not fields.get("kv_lora_rank"):
        return None
    return Latent(
        kv_rank=fields.number("kv_lora_rank"),
        q_rank=fields.number("q_lora_rank", 0, least=0),
        nope=fields.number("qk_nope_head_dim"),
        rope=fields.number("qk_rope_head_dim"),
        value=fields.number("v_head_dim"),
    )


def _experts(fields: Fields, family: str, layers: int) -> Experts | None:
    keys = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
    key = next((key for key in keys if fields.get(key)), None)
    if key is None or fields.number(key) < 2:
        return None
    count = fields.number(key)
    per_token = fields.number("num_experts_per_tok", fields.number("experts_per_token", 1))
    if per_token > count:
        raise InvalidRequest(
            f"config.json: num_experts_per_tok is {per_token}, {key} is {count}", param="num_experts_per_tok"
        )
    own = fields.get("moe_intermediate_size")
    width = fields.number("moe_intermediate_size") if isinstance(own, int) else fields.number("intermediate_size")
    shared = fields.number("n_shared_experts", 0, least=0) * width
    shared = shared or fields.number("shared_expert_intermediate_size", 0, least=0)
    if family == "llama4_text":
        shared = width
    sparse = [i for i in range(layers) if _is_sparse(fields, family, i)]
    if not sparse:
        return None
    return Experts(len(sparse), count, per_token, width, shared)


def _is_sparse(fields: Fields, family: str, layer: int) -> bool:
    if family == "llama4_text":
        listed = fields.get("moe_layers")
        if isinstance(listed, list) and listed:
            return layer in listed
        return (layer + 1) % fields.number("interleave_moe_layer_step") == 0
    only_dense = fields.get("mlp_only_layers")
    if isinstance(only_dense, list) and layer in only_dense:
        return False
    if layer < fields.number("first_k_dense_replace", 0, least=0):
        return False
    if fields.get("moe_layer_freq") is not None and isinstance(fields.get("moe_layer_freq"), int):
        return layer % fields.number("moe_layer_freq") == 0
    return (layer + 1) % fields.number("decoder_sparse_step", 1) == 0


def _dense_width(fields: Fields, family: str, hidden: int) -> int:
    if family == "llama4_text":
        return fields.number("intermediate_size_mlp", fields.number("intermediate_size"))
    return fields.number("intermediate_size", 4 * hidden if family in ("gpt2", "gpt_bigcode") else None)
