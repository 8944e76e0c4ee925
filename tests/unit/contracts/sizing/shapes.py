"""Shapes for the tests of sizing: published ones, and any that hypothesis can think of."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from control_plane.contracts.sizing.catalogue import published_model, published_models
from control_plane.contracts.sizing.config_json import shape_from_config
from control_plane.contracts.sizing.gpus import GPUS, Gpu
from control_plane.contracts.sizing.model_shape import ModelShape


def published(name: str) -> ModelShape:
    return published_model(name).shape()


def llama(**fields: Any) -> dict[str, Any]:
    """A small Llama-like config."""
    return {
        "model_type": "llama",
        "hidden_size": 512,
        "intermediate_size": 1024,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
        **fields,
    }


gpus: st.SearchStrategy[Gpu] = st.sampled_from(GPUS)
known_shapes: st.SearchStrategy[ModelShape] = st.sampled_from([model.shape() for model in published_models()])


@st.composite
def made_up(draw: st.DrawFn) -> ModelShape:
    heads = draw(st.sampled_from([4, 8, 16, 32]))
    fields: dict[str, Any] = {
        "num_hidden_layers": draw(st.integers(1, 40)),
        "num_attention_heads": heads,
        "num_key_value_heads": draw(st.sampled_from([kv for kv in (1, 2, 4, 8, 16, 32) if heads % kv == 0])),
        "head_dim": draw(st.sampled_from([32, 64, 128])),
        "tie_word_embeddings": draw(st.booleans()),
        "max_position_embeddings": 1 << 20,
    }
    if draw(st.booleans()):
        fields |= {
            "sliding_window": draw(st.integers(1, 4096)),
            "sliding_window_pattern": draw(st.integers(2, 8)),
        }
    if draw(st.booleans()):
        count = draw(st.integers(2, 64))
        fields |= {
            "num_experts": count,
            "num_experts_per_tok": draw(st.integers(1, count)),
            "moe_intermediate_size": 256,
        }
    return shape_from_config(llama(**fields), "made-up")


shapes = st.one_of(known_shapes, made_up())
