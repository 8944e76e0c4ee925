from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.sizing.config_json import shape_from_config
from control_plane.contracts.sizing.model_shape import Attention, LayerKind, ModelShape, Split
from control_plane.contracts.sizing.number_format import BF16, FP16, FP32, weight_format
from tests.unit.contracts.sizing.shapes import llama, published


def shape_of(**fields: Any) -> ModelShape:
    return shape_from_config(llama(**fields), "test")


def part(shape: ModelShape, name: str) -> int:
    return sum(weight.parameters for weight in shape.weights if weight.name == name)


def test_a_small_llama_counted_by_hand() -> None:
    shape = shape_of()
    heads = 4 * (512 * 512 * 2 + 512 * 128 * 2)
    assert shape.parameters == 2 * 1000 * 512 + heads + 4 * 3 * 512 * 1024 + 4 * 2 * 512 + 512
    assert shape.head_dim == 64
    assert shape.kinds == (LayerKind(Attention.FULL, 4),)


def test_tied_embeddings_are_counted_once() -> None:
    assert shape_of().parameters - shape_of(tie_word_embeddings=True).parameters == 1000 * 512


def test_fields_by_other_families_names() -> None:
    config = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 128}
    shape = shape_from_config(config, "gpt2")
    assert (shape.hidden, shape.layers, shape.heads, shape.intermediate) == (64, 2, 4, 256)
    assert shape.tied


def test_the_language_model_of_a_model_with_vision() -> None:
    inner = {key: value for key, value in llama().items() if key != "model_type"}
    config = {"model_type": "llava", "torch_dtype": "float16", "text_config": {"model_type": "llama", **inner}}
    shape = shape_from_config(config | {"vision_config": {"depth": 3}}, "vision")
    assert shape.parameters == shape_of().parameters
    assert shape.base_format is FP16
    assert "the vision tower is not counted" in shape.notes


def test_a_vision_tower_that_is_a_plain_transformer_is_counted() -> None:
    assert part(published("Gemma-3-27B"), "vision tower") == pytest.approx(423e6, rel=0.01)


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({"model_type": "mistral", "sliding_window": 512}, [("sliding", 4, 512)]),
        ({"model_type": "mistral", "sliding_window": None}, [("full", 4, 0)]),
        ({"sliding_window": 8192}, [("full", 4, 0)]),  # wider than the context
        ({"model_type": "qwen2", "sliding_window": 512, "use_sliding_window": False}, [("full", 4, 0)]),
        (
            {"model_type": "qwen2", "sliding_window": 512, "use_sliding_window": True, "max_window_layers": 3},
            [("full", 3, 0), ("sliding", 1, 512)],
        ),
        ({"model_type": "gemma2", "sliding_window": 512}, [("full", 2, 0), ("sliding", 2, 512)]),
        ({"model_type": "gemma3_text", "sliding_window": 512}, [("sliding", 4, 512)]),
        ({"sliding_window": 512, "sliding_window_pattern": 4}, [("full", 1, 0), ("sliding", 3, 512)]),
        (
            {"sliding_window": 9, "layer_types": ["full_attention"] + ["sliding_attention"] * 3},
            [("full", 1, 0), ("sliding", 3, 9)],
        ),
        (
            {"model_type": "llama4_text", "attention_chunk_size": 256, "num_local_experts": 4},
            [("full", 1, 0), ("chunked", 3, 256)],
        ),
    ],
)
def test_which_layers_look_back_how_far(fields: dict[str, Any], kinds: list[tuple[str, int, int]]) -> None:
    assert [(kind.attention.value, kind.layers, kind.window) for kind in shape_of(**fields).kinds] == kinds


def test_experts_where_the_config_puts_them() -> None:
    experts = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
    everywhere = shape_of(model_type="qwen3_moe", **experts)
    some = shape_of(model_type="qwen3_moe", **experts, mlp_only_layers=[0], decoder_sparse_step=2)
    assert everywhere.experts is not None
    assert (everywhere.experts.layers, everywhere.intermediate) == (4, 0)
    assert some.experts is not None
    assert (some.experts.layers, some.intermediate) == (2, 1024)
    assert part(some, "experts") == 2 * 8 * 3 * 512 * 64
    assert some.active_parameters == some.parameters - 2 * 6 * 3 * 512 * 64


def test_shared_experts_work_for_every_token() -> None:
    shape = published("DeepSeek-V3")
    assert part(shape, "shared experts") == 58 * 3 * 7168 * 2048


def test_a_latent_is_one_vector_and_its_down_projections_are_whole_on_every_gpu() -> None:
    shape = published("DeepSeek-V3")
    assert (shape.kv_heads, shape.head_dim) == (1, 576)
    whole = {weight.name for weight in shape.weights if weight.split is Split.REPLICATED}
    assert whole == {"attention: down", "router", "norms and biases"}


@pytest.mark.parametrize(
    ("word", "expected"), [("bfloat16", BF16), ("torch.float16", FP16), ("float32", BF16), (None, BF16)]
)
def test_the_format_that_it_is_served_in(word: str | None, expected: object) -> None:
    shape = shape_of(torch_dtype=word)
    assert shape.base_format is expected
    assert bool(shape.notes) == (word == "float32")


def test_another_format_by_hand() -> None:
    assert shape_from_config(llama(), "x", FP32).weight_bytes == 2 * shape_of().weight_bytes
    small = shape_from_config(llama(), "x", weight_format("int4"))
    assert small.weight_format.name == "int4"
    assert small.base_format is BF16


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"hidden_size": None}, "hidden_size"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"num_attention_heads": -8}, "num_attention_heads"),
        ({"vocab_size": "many"}, "vocab_size"),
        ({"intermediate_size": 1 << 50}, "intermediate_size"),
        ({"num_key_value_heads": True}, "num_key_value_heads"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["linear_attention"] * 4}, "layer_types"),
        ({"layer_types": [[]] * 4}, "layer_types"),
        ({"num_experts": 4, "num_experts_per_tok": 8}, "num_experts_per_tok"),
        ({"mamba_d_state": 16}, "mamba"),
        ({"model_type": "mamba2"}, "mamba"),
        ({"linear_num_key_heads": 16}, "linear_num_key_heads"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"index_topk": 2048}, "index_topk"),
        ({"quantization_config": {"quant_method": "newest"}}, "quantization_config.quant_method"),
    ],
)
def test_what_is_wrong_or_not_modelled_is_told_by_name(changes: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        shape_of(**changes)
    assert caught.value.param == param
    assert param.split(".")[0].split("_config")[0] in str(caught.value)


def test_an_unknown_architecture_is_read_but_said() -> None:
    assert "read as if it were Llama-like" in shape_of(model_type="brandnew").notes[0]


odd_values = st.sampled_from([
    None, True, False, -1, 0, 1, 3, 4, 300, 2**70, 1.5, float("nan"), float("inf"), "", "x", "fp8", [], [1], [[]],
    [0, 1, 2, 3], ["full_attention"] * 4, {}, {"a": 1}, {"quant_method": "awq"}, {"quant_method": "gptq", "bits": []},
    {"quant_method": "compressed-tensors", "config_groups": [1]}, {"hidden_size": 8}, {"model_type": []},
])  # fmt: skip
fields_read = st.sampled_from([
    "model_type", "architectures", "hidden_size", "num_hidden_layers", "head_dim", "vocab_size", "layer_types",
    "sliding_window", "sliding_window_pattern", "num_experts", "num_experts_per_tok", "kv_lora_rank", "text_config",
    "vision_config", "quantization_config", "torch_dtype", "mlp_only_layers", "moe_layer_freq", "no_rope_layers",
    "attention_bias", "max_position_embeddings", "intermediate_size", "max_window_layers", "use_sliding_window",
])  # fmt: skip


@given(st.dictionaries(fields_read, odd_values, max_size=6))
@settings(deadline=None)
def test_no_file_makes_it_fall_over(changes: dict[str, Any]) -> None:
    try:
        shape = shape_from_config(llama(**changes), "any")
    except InvalidRequest:
        return
    assert shape.parameters > 0
    assert shape.weight_bytes > 0
