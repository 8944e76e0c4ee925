"""Parameters, weight bytes and KV bytes against what the models' makers publish."""

from __future__ import annotations

import pytest

from control_plane.contracts.sizing.catalogue import published_models
from control_plane.contracts.sizing.model_shape import Use
from control_plane.contracts.sizing.number_format import FP8, weight_format
from tests.unit.contracts.sizing.shapes import published

# metadata.total_size of model.safetensors.index.json in the model's repository on the Hugging Face hub: bytes of all
# tensors, 16 bits each.
INDEX_TOTALS = {
    "Llama-3.1-8B": 16_060_522_496,
    "Llama-3.1-70B": 141_107_412_992,
    "Qwen3-32B": 65_524_246_528,
    "Qwen3-30B-A3B": 61_064_245_248,
    "Qwen2.5-7B": 15_231_233_024,
    "Mistral-7B": 14_483_464_192,
    "Mixtral-8x7B": 93_405_585_408,
}

# Totals and active parameters in billions, as the makers state them.
STATED = {
    "DeepSeek-V3": (671, 37, "arXiv 2412.19437, abstract: 671B parameters with 37B activated"),
    "Llama-3.1-405B": (405, 405, "arXiv 2407.21783, abstract: 405B parameters"),
    "Qwen3-235B-A22B": (235, 22, "model card: 235B in total and 22B activated"),
    "Qwen3-30B-A3B": (30.5, 3.3, "model card: 30.5B in total and 3.3B activated"),
    "Mixtral-8x7B": (46.7, 12.9, "arXiv 2401.04088 and the announcement: 46.7B total, 12.9B per token"),
    "Llama-4-Scout-17B-16E": (109, 17, "model card: 17B activated, 109B total; the vision tower is 0.9B of it"),
    "Gemma-2-9B": (9.24, 9.24, "arXiv 2408.00118, table 2: 918M embedding + 8,324M other"),
    "Gemma-3-27B": (27.4, 27.4, "arXiv 2503.19786, table 1: 417M vision + 1,416M embedding + 25,600M other"),
    "Phi-3-mini": (3.82, 3.82, "model card: 3.8B parameters"),
    "SmolLM2-135M": (0.1345, 0.1345, "model card: 135M parameters"),
}


@pytest.mark.parametrize("name", INDEX_TOTALS)
def test_weights_are_as_large_as_the_checkpoint(name: str) -> None:
    assert published(name).weight_bytes == INDEX_TOTALS[name]


@pytest.mark.parametrize("name", STATED)
def test_parameters_are_within_one_percent_of_those_stated(name: str) -> None:
    total, active, _ = STATED[name]
    shape = published(name)
    assert shape.parameters / 1e9 == pytest.approx(total, rel=0.012 if "Scout" in name else 0.01)
    assert shape.active_parameters / 1e9 == pytest.approx(active, rel=0.02)


@pytest.mark.parametrize(
    ("name", "total", "active", "checkpoint_gib"),
    [("GPT-OSS-120b", 116.83, 5.13, 60.8), ("GPT-OSS-20b", 20.91, 3.61, 12.8)],
)
def test_gpt_oss_is_as_its_card_says(name: str, total: float, active: float, checkpoint_gib: float) -> None:
    """OpenAI's model card (arXiv 2508.10925), table 1; active parameters there leave out the embedding."""
    shape = published(name)
    embedding = sum(weight.parameters for weight in shape.weights if weight.use is Use.LOOKED_UP)
    assert shape.parameters / 1e9 == pytest.approx(total, abs=0.005)
    assert (shape.active_parameters - embedding) / 1e9 == pytest.approx(active, abs=0.005)
    assert shape.weight_bytes / 2**30 == pytest.approx(checkpoint_gib, abs=0.05)


@pytest.mark.parametrize(
    ("name", "kib"),
    [
        ("Llama-3.1-8B", 128),
        ("Llama-3.1-70B", 320),
        ("Llama-3.1-405B", 504),  # arXiv 2412.19437, and 516 KB in table 1 of arXiv 2505.09343
        ("DeepSeek-V3", 68.625),  # 70.272 KB in table 1 of arXiv 2505.09343
        ("Qwen2.5-7B", 56),
        ("Mistral-7B", 128),
        ("Qwen3-32B", 256),
        ("SmolLM2-135M", 22.5),
    ],
)
def test_kv_bytes_of_a_token_are_the_known_ones(name: str, kib: float) -> None:
    shape = published(name)
    assert shape.kv_bytes_per_token() == kib * 1024
    assert shape.kv_bytes_per_token(FP8) == kib * 512


def test_a_latent_is_70_kb_and_llama_516_kb_a_token_as_deepseek_published() -> None:
    assert round(published("DeepSeek-V3").kv_bytes_per_token() / 1000, 3) == 70.272
    assert round(published("Llama-3.1-405B").kv_bytes_per_token() / 1000, 3) == 516.096


def test_an_fp8_checkpoint_is_half_of_its_projections() -> None:
    """Qwen3-32B-FP8: only embeddings, the output head and norms stay in 16 bits."""
    whole, half = published("Qwen3-32B"), published("Qwen3-32B-FP8")
    kept = sum(w.bytes for w in half.weights if w.format.name == "bf16")
    assert half.parameters == whole.parameters
    assert half.weight_bytes - kept == pytest.approx((whole.weight_bytes - kept) / 2, rel=0.001)


def test_every_model_names_its_source_and_reads_without_doubt() -> None:
    models = published_models()
    assert len(models) >= 15
    for model in models:
        shape = model.shape()
        assert model.source == f"https://huggingface.co/{model.repo}/blob/main/config.json"
        assert sum(kind.layers for kind in shape.kinds) == shape.layers
        assert not any("read as if" in note for note in shape.notes)


@pytest.mark.parametrize("word", ["fp8", "int8", "int4", "mxfp4", "nvfp4", "nf4"])
def test_another_format_makes_every_model_smaller_and_no_other(word: str) -> None:
    for model in published_models():
        plain, small = model.shape(weight_format("bf16")), model.shape(weight_format(word))
        assert small.parameters == plain.parameters
        assert small.weight_bytes < plain.weight_bytes
