from __future__ import annotations

import pytest

from control_plane.contracts.errors import InvalidRequest, NotFound
from control_plane.contracts.sizing.catalogue import published_model, published_models
from control_plane.contracts.sizing.gpus import GIB, GPUS, gpu_named
from control_plane.contracts.sizing.nearest import nearest
from control_plane.contracts.sizing.number_format import Math, kv_format, weight_format


def test_the_figures_hang_together() -> None:
    assert len({gpu.name for gpu in GPUS}) == len(GPUS) >= 10
    for gpu in GPUS:
        assert gpu.source
        assert 0.85 * gpu.marketed_gb * 1e9 < gpu.memory_bytes < 1.1 * gpu.marketed_gb * 1e9
        assert gpu.bf16 <= gpu.int8 <= 4 * gpu.bf16
        assert gpu.fp8 in (0, pytest.approx(2 * gpu.bf16, rel=0.02))
        assert gpu.link < gpu.bandwidth < 1e13


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("h100", "H100"),
        ("NVIDIA H100", "H100"),
        ("A100", "A100-80GB"),
        ("a100 40gb", "A100-40GB"),
        ("rtx_4090", "RTX-4090"),
        ("4090", "RTX-4090"),
        ("mi300x", "MI300X"),
    ],
)
def test_names_as_people_write_them(word: str, name: str) -> None:
    assert gpu_named(word).name == name


def test_what_has_no_units_of_its_own_runs_in_16_bit() -> None:
    assert gpu_named("A100").rate(Math.FP8) == gpu_named("A100").bf16
    assert gpu_named("H100").rate(Math.FP8) == 1978.9e12


def test_an_unknown_one_names_the_nearest() -> None:
    with pytest.raises(NotFound) as caught:
        gpu_named("H10")
    assert "nearest: H100" in str(caught.value)
    assert caught.value.hint == "--gpu H100"
    with pytest.raises(NotFound) as caught:
        published_model("Llama-3-70B")
    assert "nearest: Llama-3.1-70B" in str(caught.value)


def test_nearest_orders_and_is_never_empty() -> None:
    assert nearest("qwen3", ["Mixtral-8x7B", "Qwen3-32B", "Qwen2.5-7B"], 1) == ["Qwen3-32B"]
    assert nearest("", ["a", "b"], 1) == ["a"]
    assert nearest("org/phi", ["Llama", "Phi-3-mini"], 1) == ["Phi-3-mini"]


def test_number_formats_by_name() -> None:
    assert weight_format("BFloat16").bits == 16
    assert weight_format("awq").bits == pytest.approx(4.156, abs=0.001)
    assert kv_format("fp8_e4m3").bytes == 1
    for read, word, param in ((weight_format, "fp7", "dtype"), (kv_format, "int4", "kv_dtype")):
        with pytest.raises(InvalidRequest) as caught:
            read(word)
        assert caught.value.param == param
        assert caught.value.hint.startswith("--")


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("llama-3.1-8b", "Llama-3.1-8B"),
        ("meta-llama/Llama-3.1-8B", "Llama-3.1-8B"),
        ("meta-llama/Llama-3.3-70B-Instruct", "Llama-3.1-70B"),
        ("deepseek-ai/DeepSeek-R1", "DeepSeek-V3"),
        ("smollm2", "SmolLM2-135M"),
        ("llama-4", "Llama-4-Scout-17B-16E"),
        ("Qwen3-32B", "Qwen3-32B"),
    ],
)
def test_models_by_name_hub_id_case_and_beginning(word: str, name: str) -> None:
    assert published_model(word).name == name


@pytest.mark.parametrize("word", ["", "qwen3", "llama", " ", "/", "someone/Llama-3.1-8B", "mistralai/mixtral"])
def test_what_could_mean_another_is_none(word: str) -> None:
    with pytest.raises(NotFound):
        published_model(word)


def test_no_name_means_two_models() -> None:
    names = [name.lower() for model in published_models() for name in {model.name, model.repo, *model.also}]
    assert len(names) == len(set(names))


def test_memory_is_what_a_program_sees() -> None:
    assert gpu_named("H100").memory_bytes / GIB == pytest.approx(79.15, abs=0.01)
